//! Requests to the hub.

use std::io;
use std::time::Duration;

use ureq::config::RedirectAuthHeaders;
use ureq::http::{HeaderMap, Response};
use ureq::{Agent, Body};

use super::error::HubError;
use super::name::HubName;
use super::settings::{Patience, Settings};

/// The reason why an attempt brought nothing.
pub(super) enum Failure {
    /// Another attempt may help.
    Passing {
        reason: String,
        /// The wait that the server asks for.
        wait: Option<Duration>,
        /// Some of what is wanted came before.
        has_progress: bool,
    },
    /// Another attempt would end the same.
    Final(HubError),
}

impl Failure {
    /// A failure before anything came.
    pub(super) fn passing(reason: impl Into<String>) -> Self {
        Self::Passing {
            reason: reason.into(),
            wait: None,
            has_progress: false,
        }
    }
}

impl From<HubError> for Failure {
    fn from(error: HubError) -> Self {
        Self::Final(error)
    }
}

/// A client of one server.
pub(super) struct Client {
    agent: Agent,
    endpoint: String,
    token: Option<String>,
    patience: Patience,
}

impl Client {
    pub(super) fn new(settings: &Settings) -> Self {
        let patience = settings.patience;
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .user_agent(concat!("expctl/", env!("CARGO_PKG_VERSION")))
            // A compressed answer could not be resumed.
            .accept_encoding("identity")
            .redirect_auth_headers(RedirectAuthHeaders::SameHost)
            .timeout_connect(Some(patience.connect))
            .timeout_recv_response(Some(patience.silence))
            .timeout_per_read(Some(patience.silence))
            .build();
        Self {
            agent: config.new_agent(),
            endpoint: settings.endpoint.clone(),
            token: settings.token.clone(),
            patience,
        }
    }

    pub(super) fn patience(&self) -> &Patience {
        &self.patience
    }

    pub(super) fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// One request for `path` of the server, from byte `start` on. The answer is a success, or 416 for a start that is
    /// past the end.
    pub(super) fn get(&self, path: &str, start: u64, name: &HubName) -> Result<Response<Body>, Failure> {
        let mut request = self.agent.get(format!("{}/{path}", self.endpoint));
        if let Some(token) = &self.token {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        if start > 0 {
            request = request.header("Range", format!("bytes={start}-"));
        }
        let response = request.call().map_err(|error| self.failure(&error))?;
        match response.status().as_u16() {
            200..=299 => Ok(response),
            416 if start > 0 => Ok(response),
            status => Err(self.refusal(status, response.headers(), path, name)),
        }
    }

    /// Tries until `attempt` succeeds, fails for good, or brings nothing too often. Waits in between, as long as the server
    /// asks for, or longer each time.
    pub(super) fn persist<T>(&self, mut attempt: impl FnMut() -> Result<T, Failure>) -> Result<T, HubError> {
        let (mut failed, mut backoff) = (0, self.patience.first_wait);
        loop {
            let (reason, wait, has_progress) = match attempt() {
                Ok(done) => return Ok(done),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Passing {
                    reason,
                    wait,
                    has_progress,
                }) => (reason, wait, has_progress),
            };
            if has_progress {
                (failed, backoff) = (0, self.patience.first_wait);
            }
            failed += 1;
            let endpoint = self.endpoint.clone();
            match wait {
                Some(wait) if wait > self.patience.longest_wait || failed >= self.patience.attempts => {
                    return Err(HubError::Busy { endpoint, reason, wait });
                }
                None if failed >= self.patience.attempts => {
                    return Err(HubError::Unreachable { endpoint, reason });
                }
                _ => {}
            }
            std::thread::sleep(wait.unwrap_or(backoff));
            backoff = (backoff * 2).min(self.patience.longest_wait);
        }
    }

    fn failure(&self, error: &ureq::Error) -> Failure {
        let passing = match error {
            ureq::Error::Io(error) => !is_out_of_reach(error),
            ureq::Error::Timeout(_) | ureq::Error::Protocol(_) | ureq::Error::ConnectionFailed => true,
            _ => false,
        };
        match passing {
            true => Failure::passing(error.to_string()),
            false => Failure::Final(HubError::Unreachable {
                endpoint: self.endpoint.clone(),
                reason: error.to_string(),
            }),
        }
    }

    /// The hub names its reason in a header. Without a token it also answers 401 for what does not exist.
    fn refusal(&self, status: u16, headers: &HeaderMap, path: &str, name: &HubName) -> Failure {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let (endpoint, name) = (self.endpoint.clone(), Box::new(name.clone()));
        let has_token = self.token.is_some();
        let message = header("x-error-message").map(str::to_owned);
        Failure::Final(match (status, header("x-error-code")) {
            (408 | 429 | 500 | 502..=504, _) => {
                return Failure::Passing {
                    reason: format!("it answers {status}"),
                    wait: wanted_wait(headers),
                    has_progress: false,
                };
            }
            (_, Some("RevisionNotFound")) => HubError::NoRevision { name },
            (_, Some("GatedRepo")) => HubError::Gated {
                endpoint,
                name,
                has_token,
            },
            (401, _) if message.as_deref() == Some("Invalid credentials in Authorization header") => {
                HubError::Token { endpoint }
            }
            (_, Some("RepoNotFound")) | (401 | 404, None) => HubError::NoRepository {
                endpoint,
                name,
                has_token,
            },
            _ => HubError::Refused {
                endpoint,
                what: path.into(),
                status,
                message,
            },
        })
    }
}

/// True if nothing answers at the address, as without a network: waiting some seconds is in vain.
fn is_out_of_reach(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkDown, NetworkUnreachable};
    let kinds = [ConnectionRefused, HostUnreachable, NetworkDown, NetworkUnreachable];
    // The standard library has no kind for a name that is not found.
    kinds.contains(&error.kind()) || error.to_string().contains("failed to lookup address")
}

/// The seconds of `Retry-After`, or those until the limit of requests starts again (`RateLimit: "api";r=0;t=55`).
fn wanted_wait(headers: &HeaderMap) -> Option<Duration> {
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let retry_after = header("retry-after").and_then(|text| text.trim().parse().ok());
    let rate_limit = || {
        let mut parts = header("ratelimit")?.split(';').map(str::trim);
        parts.find_map(|part| part.strip_prefix("t=")?.parse().ok())
    };
    retry_after.or_else(rate_limit).map(Duration::from_secs)
}
