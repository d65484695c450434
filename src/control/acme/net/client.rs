//! An order, from the account to the certificate: RFC 8555, section 7.4. With the crate `instant-acme`.
//!
//! ```text
//! account ─▶ new order ─▶ for each name: present the challenge ─▶ ready ─▶ wait ─▶ finalize with a new key ─▶ chain
//! ```

use super::{
    super::{
        certificate::from_base64url,
        message::{ChallengeAnswer, FailureKind, FromNet, OrderFailure},
        vocabulary::{JobId, RenewalWindow},
    },
    failure::{self, OrderStage, challenge_failure, failure},
    hook::{HookAction, HookProcess},
    https::{HttpsClient, HttpsError},
};
use crate::base::acme_config::{AcmeChallenge, AcmeConfig};
use instant_acme::{
    Account, AccountCredentials, AuthorizationStatus, CertificateIdentifier, ChallengeType, Error,
    ExternalAccountKey, Identifier, NewAccount, NewOrder, Order, OrderStatus, RetryPolicy,
};
use rcgen::{CertificateParams, CustomExtension, KeyPair};
use rustls::pki_types::{CertificateDer, pem::PemObject};
use std::time::Duration;

/// Orders certificates from one directory.
pub(crate) struct AcmeClient {
    config: AcmeConfig,
    https: HttpsClient,
    hook: Option<HookProcess>,
}

/// What is ordered.
#[derive(Debug)]
pub(crate) struct OrderRequest {
    pub(crate) id: JobId,
    pub(crate) names: Vec<String>,
    pub(crate) account: Option<String>,
    /// The chain in PEM that the new certificate replaces.
    pub(crate) replaced: Option<String>,
}

/// Hears of an order while it is under way.
pub(crate) trait Reporter {
    /// Stores the credentials of a new account.
    fn account_made(&mut self, credentials: String);
    /// Publishes a challenge, a [`FromNet::Present`]. Returns when it is published.
    fn present(&mut self, message: FromNet) -> Result<(), OrderFailure>;
}

/// How often an order is tried whose nonce the directory rejects; `instant-acme` tries each request three times.
const NONCE_TRY_COUNT: usize = 4;

/// How long the directory may take to check all names, and to issue the certificate. Records of the DNS may be cached for minutes.
const POLL_TIME_MAX: Duration = Duration::from_secs(5 * 60);

impl AcmeClient {
    /// Returns a client for the directory of this configuration.
    pub(super) fn new(config: AcmeConfig, https: HttpsClient, hook: Option<HookProcess>) -> AcmeClient {
        AcmeClient { config, https, hook }
    }

    /// Orders a certificate. Returns the chain and the private key, both in PEM.
    pub(crate) async fn order(
        &mut self,
        request: OrderRequest,
        reporter: &mut impl Reporter,
    ) -> Result<(String, String), OrderFailure> {
        let (mut request, mut records) = (request, Vec::new());
        let mut result = self.try_order(&mut request, reporter, &mut records).await;
        for _ in 1..NONCE_TRY_COUNT {
            if !result.as_ref().is_err_and(|failure| failure.kind == FailureKind::BadNonce) {
                break;
            }
            result = self.try_order(&mut request, reporter, &mut records).await;
        }
        if let Some(hook) = &mut self.hook {
            for (name, value) in records {
                // The order is over; a record that stays is in the log of the hook.
                let _ = hook.run(HookAction::Remove, &name, &value);
            }
        }
        result
    }

    async fn try_order(
        &mut self,
        request: &mut OrderRequest,
        reporter: &mut impl Reporter,
        records: &mut Vec<(String, String)>,
    ) -> Result<(String, String), OrderFailure> {
        self.https.take_last();
        let account = self.account(&mut request.account, reporter).await?;
        let identifiers: Vec<_> = request.names.iter().cloned().map(Identifier::Dns).collect();
        let mut order = self.new_order(&account, &identifiers, request.replaced.as_deref()).await?;
        self.present(&mut order, request, reporter, records).await?;
        let policy = RetryPolicy::new().initial_delay(Duration::from_millis(250)).timeout(POLL_TIME_MAX);
        let checked = order.poll_ready(&policy).await;
        if !matches!(checked, Ok(OrderStatus::Ready)) {
            return Err(self.why_invalid(&mut order, checked.err()).await);
        }
        let key = order.finalize().await.map_err(|error| self.failed(OrderStage::Order, &error))?;
        let chain =
            order.poll_certificate(&policy).await.map_err(|error| self.failed(OrderStage::Order, &error))?;
        Ok((chain, key))
    }

    /// Asks for the renewal window of a certificate: RFC 9773. Returns it, and after how many seconds to ask again. `None`: the directory
    /// does not tell.
    pub(super) async fn renewal(
        &mut self,
        chain: &str,
        account: Option<&str>,
    ) -> Option<(RenewalWindow, u64)> {
        let certificate = CertificateDer::from_pem_slice(chain.as_bytes()).ok()?;
        let id = CertificateIdentifier::try_from(&certificate).ok()?;
        let account = Account::builder_with_http(Box::new(self.https.clone()))
            .from_credentials(serde_json::from_str(account?).ok()?)
            .await
            .ok()?;
        let (info, wait) = account.renewal_info(&id).await.ok()?;
        let seconds = |time: i64| u64::try_from(time).ok();
        let window = info.suggested_window;
        let window = RenewalWindow {
            start_s: seconds(window.start.unix_timestamp())?,
            end_s: seconds(window.end.unix_timestamp())?,
        };
        Some((window, wait.as_secs()))
    }

    /// Returns the stored account, or makes one.
    async fn account(
        &self,
        stored: &mut Option<String>,
        reporter: &mut impl Reporter,
    ) -> Result<Account, OrderFailure> {
        let builder = Account::builder_with_http(Box::new(self.https.clone()));
        let failed = |error: Error| self.failed(OrderStage::Account, &error);
        if let Some(stored) = &stored {
            let credentials: AccountCredentials = serde_json::from_str(stored)
                .map_err(|error| OrderFailure::new(FailureKind::AccountGone, error))?;
            return builder.from_credentials(credentials).await.map_err(failed);
        }
        let external = self.config.external_account.as_ref().map(|external| {
            let key = from_base64url(&external.key).ok_or_else(|| {
                OrderFailure::new(FailureKind::AccountRefused, "the key of acme-eab-key is not base64url")
            })?;
            Ok(ExternalAccountKey::new(external.key_id.clone(), &key))
        });
        let external = external.transpose()?;
        let contact = self.config.email.as_ref().map(|email| format!("mailto:{email}"));
        let contacts: Vec<&str> = contact.iter().map(String::as_str).collect();
        let new =
            NewAccount { contact: &contacts, terms_of_service_agreed: true, only_return_existing: false };
        let created = builder.create(&new, self.config.directory.clone(), external.as_ref()).await;
        let (account, credentials) = created.map_err(failed)?;
        let credentials = serde_json::to_string(&credentials)
            .map_err(|error| OrderFailure::new(FailureKind::Malformed, error))?;
        *stored = Some(credentials.clone());
        reporter.account_made(credentials);
        Ok(account)
    }

    /// Makes an order, which replaces a certificate if the directory knows of such things.
    async fn new_order(
        &self,
        account: &Account,
        identifiers: &[Identifier],
        replaced: Option<&str>,
    ) -> Result<Order, OrderFailure> {
        let replaced = replaced.and_then(|chain| CertificateDer::from_pem_slice(chain.as_bytes()).ok());
        if let Some(replaced) = replaced.and_then(|replaced| CertificateIdentifier::try_from(&replaced).ok())
        {
            match account.new_order(&NewOrder::new(identifiers).replaces(replaced)).await {
                Ok(order) => return Ok(order),
                Err(error) if may_refuse_replacement(&error) => {}
                Err(error) => return Err(self.failed(OrderStage::Order, &error)),
            }
        }
        let order = account.new_order(&NewOrder::new(identifiers)).await;
        order.map_err(|error| self.failed(OrderStage::Order, &error))
    }

    /// Publishes the challenge of each name that the directory has not checked before.
    async fn present(
        &mut self,
        order: &mut Order,
        request: &OrderRequest,
        reporter: &mut impl Reporter,
        records: &mut Vec<(String, String)>,
    ) -> Result<(), OrderFailure> {
        let mut authorizations = order.authorizations();
        while let Some(authorization) = authorizations.next().await {
            let mut authorization = authorization.map_err(|error| self.failed(OrderStage::Order, &error))?;
            if authorization.status == AuthorizationStatus::Valid {
                continue;
            }
            let name = authorization.identifier().to_string();
            if !request.names.contains(&name) {
                return Err(OrderFailure::new(FailureKind::Directory, "it wants to check another name"));
            }
            let kind = match self.config.challenge {
                AcmeChallenge::Http01 => ChallengeType::Http01,
                AcmeChallenge::TlsAlpn01 => ChallengeType::TlsAlpn01,
                AcmeChallenge::Dns01 => ChallengeType::Dns01,
            };
            let none = || OrderFailure::new(FailureKind::NoChallenge, "it offers others").of(&name);
            let mut challenge = authorization.challenge(kind).ok_or_else(none)?;
            let authorized = challenge.key_authorization();
            let answer = match self.config.challenge {
                AcmeChallenge::Http01 => Some(ChallengeAnswer::Http {
                    token: challenge.token.clone(),
                    key_authorization: authorized.as_str().to_owned(),
                }),
                AcmeChallenge::TlsAlpn01 => Some(challenge_certificate(&name, authorized.digest().as_ref())?),
                AcmeChallenge::Dns01 => {
                    let record = format!("_acme-challenge.{}", name.trim_start_matches("*."));
                    let value = authorized.dns_value();
                    let missing = || OrderFailure::new(FailureKind::Hook, "there is no acme-dns-hook");
                    let hook = self.hook.as_mut().ok_or_else(missing)?;
                    records.push((record.clone(), value.clone()));
                    hook.run(HookAction::Add, &record, &value)
                        .map_err(|why| OrderFailure::new(FailureKind::Hook, why).of(&name))?;
                    None
                }
            };
            if let Some(challenge) = answer {
                // As the supervisor does, which would not trust this process any more.
                challenge.check().map_err(|why| OrderFailure::new(FailureKind::Directory, why).of(&name))?;
                reporter.present(FromNet::Present { id: request.id, name: name.clone(), challenge })?;
            }
            let ready = challenge.set_ready().await;
            ready
                .map_err(|error| failure(OrderStage::Challenge, &error, self.https.take_last()).of(&name))?;
        }
        Ok(())
    }

    /// Returns why the directory has not accepted a challenge: each name has its own reason.
    async fn why_invalid(&self, order: &mut Order, error: Option<Error>) -> OrderFailure {
        let last = self.https.take_last();
        let mut authorizations = order.authorizations();
        while let Some(Ok(mut authorization)) = authorizations.next().await {
            if authorization.refresh().await.is_err() {
                break;
            }
            let name = authorization.identifier().to_string();
            if let Some(problem) =
                authorization.challenges.iter().find_map(|challenge| challenge.error.as_ref())
            {
                return challenge_failure(problem).of(&name);
            }
        }
        match error {
            Some(error) => failure(OrderStage::Challenge, &error, last),
            None => OrderFailure::new(FailureKind::Directory, "the order is invalid, without a reason"),
        }
    }

    fn failed(&self, stage: OrderStage, error: &Error) -> OrderFailure {
        failure(stage, error, self.https.take_last())
    }
}

/// Returns whether an order may succeed that replaces no certificate: RFC 9773, section 5. A directory may refuse the replacement, as when another
/// order has replaced the certificate or another account has ordered it, or know nothing of replacements.
fn may_refuse_replacement(error: &Error) -> bool {
    match error {
        Error::Unsupported(_) => true,
        Error::Api(problem) => {
            let kind = failure::kind_of(OrderStage::Order, problem);
            !matches!(kind, FailureKind::RateLimited | FailureKind::BadNonce)
        }
        // Its answer does not repeat the replacement.
        Error::Other(other) => other.downcast_ref::<HttpsError>().is_none(),
        _ => false,
    }
}

/// Makes the certificate that answers tls-alpn-01: RFC 8737, section 3.
fn challenge_certificate(name: &str, digest: &[u8]) -> Result<ChallengeAnswer, OrderFailure> {
    let failed = |error: rcgen::Error| OrderFailure::new(FailureKind::Malformed, error);
    let mut params = CertificateParams::new([name.to_owned()]).map_err(failed)?;
    params.custom_extensions = vec![CustomExtension::new_acme_identifier(digest)];
    let key = KeyPair::generate().map_err(failed)?;
    let certificate = params.self_signed(&key).map_err(failed)?;
    Ok(ChallengeAnswer::TlsAlpn { certificate: certificate.der().to_vec(), key: key.serialize_der() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use x509_parser::prelude::{FromDer, X509Certificate};

    /// RFC 8737, section 3: the name alone, and a critical extension with the digest.
    #[test]
    fn challenge_certificate_has_the_name_and_the_digest() {
        let answer = challenge_certificate("a.example", &[7; 32]).unwrap();
        let message =
            FromNet::Present { id: JobId(1), name: "a.example".to_owned(), challenge: answer.clone() };
        assert_eq!(message.check(&["a.example".to_owned()]), Ok(()), "it fits");
        let ChallengeAnswer::TlsAlpn { certificate, .. } = answer else { panic!("another challenge") };
        let (_, parsed) = X509Certificate::from_der(&certificate).unwrap();
        let names = parsed.subject_alternative_name().unwrap().expect("names");
        assert_eq!(names.value.general_names.len(), 1);
        let extensions = parsed.extensions();
        let of_acme =
            extensions.iter().find(|found| found.oid.to_id_string() == "1.3.6.1.5.5.7.1.31").unwrap();
        assert!(of_acme.critical);
        assert_eq!(of_acme.value, [&[4, 32], &[7; 32][..]].concat());
    }
}
