use super::table::LabReport;
pub(super) fn report(_: &crate::records::ladder::LadderRecord) -> LabReport {
    todo!()
}
