#[derive(clap::Args)]
pub(crate) struct LadderArgs {}
pub(crate) fn run(_: &LadderArgs) -> Result<(), crate::error::LabError> {
    todo!()
}
