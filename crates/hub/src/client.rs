//! Requests to the hub.

use std::io;
use std::time::Duration;

use ureq::http::{HeaderMap, Response, Uri};
use ureq::{Agent, Body};

use super::error::HubError;
use super::name::HubName;
use super::settings::{Patience, Settings};

/// The most redirects of one request.
const MOST_REDIRECTS: usize = 10;

/// The reason why an attempt brought nothing.
pub(super) enum Failure {
    /// Another attempt may help.
    Passing {
        reason: String,
        /// The server answered that it cannot serve now.
        is_busy: bool,
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
            is_busy: false,
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
            // ureq would send the token to other ports of the same host, too.
            .max_redirects(0)
            .max_redirects_will_error(false)
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
    /// past the end. The server's answer must be of `commit`, if it says a commit.
    pub(super) fn get(
        &self,
        path: &str,
        start: u64,
        name: &HubName,
        commit: Option<&str>,
    ) -> Result<Response<Body>, Failure> {
        let address = format!("{}/{path}", self.endpoint);
        let mut url = address.parse::<Uri>().map_err(|error| HubError::Unreachable {
            endpoint: self.endpoint.clone(),
            reason: error.to_string(),
        })?;
        let origin = Origin::of(&url);
        for _ in 0..=MOST_REDIRECTS {
            let response = self.request(&url, start, &origin)?;
            let is_endpoint = Origin::of(&url) == origin;
            if is_endpoint {
                check_commit(response.headers(), commit)?;
            }
            match (response.status().as_u16(), header(response.headers(), "location")) {
                (301 | 302 | 303 | 307 | 308, Some(location)) => {
                    let next = join(&url, location);
                    url = next.ok_or_else(|| Failure::passing(format!("it redirects to `{location}`")))?;
                }
                (200..=299, _) => return Ok(response),
                (416, _) if start > 0 => return Ok(response),
                (status, _) if is_endpoint => return Err(self.refusal(status, response.headers(), path, name)),
                // A large file's address is signed for some minutes.
                (status, _) => {
                    let host = url.host().unwrap_or_default();
                    return Err(busy(
                        format!("its storage {host} answers {status}"),
                        wanted_wait(status, response.headers()),
                    ));
                }
            }
        }
        Err(Failure::passing("it redirects without an end"))
    }

    /// One request. The token is for the endpoint's scheme, host and port alone.
    fn request(&self, url: &Uri, start: u64, endpoint: &Origin) -> Result<Response<Body>, Failure> {
        let mut request = self.agent.get(url);
        if let Some(token) = self.token.as_ref().filter(|_| Origin::of(url) == *endpoint) {
            request = request.header("Authorization", format!("Bearer {token}"));
        }
        if start > 0 {
            request = request.header("Range", format!("bytes={start}-"));
        }
        request.call().map_err(|error| self.failure(&error))
    }

    /// Tries until `attempt` succeeds, fails for good, or brings nothing too often. Waits in between, as long as the
    /// server asks for, or longer each time.
    pub(super) fn persist<T>(&self, mut attempt: impl FnMut() -> Result<T, Failure>) -> Result<T, HubError> {
        let (mut failed, mut backoff) = (0, self.patience.first_wait);
        // An answer of the server tells more than a connection that is cut later.
        let mut answer: Option<String> = None;
        loop {
            let (mut reason, is_busy, wait, has_progress) = match attempt() {
                Ok(done) => return Ok(done),
                Err(Failure::Final(error)) => return Err(error),
                Err(Failure::Passing {
                    reason,
                    is_busy,
                    wait,
                    has_progress,
                }) => (reason, is_busy, wait, has_progress),
            };
            if has_progress {
                (failed, backoff, answer) = (0, self.patience.first_wait, None);
            }
            failed += 1;
            if is_busy {
                answer = Some(reason.clone());
            }
            if failed >= self.patience.attempts || wait.is_some_and(|wait| wait > self.patience.longest_wait) {
                let endpoint = self.endpoint.clone();
                if let Some(answer) = answer.as_ref().filter(|_| !is_busy) {
                    reason = format!("{answer}, and then {reason}");
                }
                return Err(match answer {
                    Some(_) => HubError::Busy { endpoint, reason, wait },
                    None => HubError::Unreachable { endpoint, reason },
                });
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
        let (endpoint, name) = (self.endpoint.clone(), Box::new(name.clone()));
        let has_token = self.token.is_some();
        let message = header(headers, "x-error-message").map(str::to_owned);
        Failure::Final(match (status, header(headers, "x-error-code")) {
            (408 | 429 | 500 | 502..=504, _) => {
                return busy(format!("it answers {status}"), wanted_wait(status, headers));
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

/// The server of an address, to which a token may be sent.
#[derive(PartialEq, Eq)]
struct Origin {
    scheme: Option<String>,
    host: Option<String>,
    port: Option<u16>,
}

impl Origin {
    fn of(url: &Uri) -> Self {
        let default = match url.scheme_str() {
            Some("https") => Some(443),
            Some("http") => Some(80),
            _ => None,
        };
        Self {
            scheme: url.scheme_str().map(str::to_owned),
            host: url.host().map(str::to_ascii_lowercase),
            port: url.port_u16().or(default),
        }
    }
}

/// The address that a redirect names, which may leave out what stays.
fn join(url: &Uri, location: &str) -> Option<Uri> {
    let (scheme, authority) = (url.scheme_str()?, url.authority()?);
    let is_whole = location.starts_with("https://") || location.starts_with("http://");
    let address = match location {
        whole if is_whole => whole.to_owned(),
        host if host.starts_with("//") => format!("{scheme}:{host}"),
        path if path.starts_with('/') => format!("{scheme}://{authority}{path}"),
        file => format!("{scheme}://{authority}{}/{file}", url.path().rsplit_once('/')?.0),
    };
    address.parse().ok()
}

fn header<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name).and_then(|value| value.to_str().ok())
}

/// A refusal that passes.
fn busy(reason: String, wait: Option<Duration>) -> Failure {
    Failure::Passing {
        reason,
        is_busy: true,
        wait,
        has_progress: false,
    }
}

/// Refuses an answer of another commit than the one asked for, as a mirror's or a proxy's may be.
fn check_commit(headers: &HeaderMap, commit: Option<&str>) -> Result<(), Failure> {
    match (header(headers, "x-repo-commit"), commit) {
        (Some(answered), Some(commit)) if answered != commit => {
            Err(Failure::passing(format!("it answers commit {answered} for {commit}")))
        }
        _ => Ok(()),
    }
}

/// True if nothing answers at the address, as without a network: waiting some seconds is in vain.
fn is_out_of_reach(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, NetworkDown, NetworkUnreachable};
    let kinds = [ConnectionRefused, HostUnreachable, NetworkDown, NetworkUnreachable];
    // The standard library has no kind for a name that is not found.
    kinds.contains(&error.kind()) || error.to_string().contains("failed to lookup address")
}

/// The wait until the limit of requests starts again if none are left (429 with `RateLimit: "api";r=0;t=55`), else that
/// of `Retry-After` in seconds. The limit's seconds are rounded, so Python's `huggingface_hub` waits for one more.
fn wanted_wait(status: u16, headers: &HeaderMap) -> Option<Duration> {
    let limit = header(headers, "ratelimit").filter(|_| status == 429);
    let reset = limit.and_then(|limit| {
        let field = |key: &str| {
            let mut fields = limit.split(';').filter_map(|field| field.split_once('='));
            let (_, value) = fields.find(|(name, _)| name.trim() == key)?;
            value.trim().parse::<u64>().ok()
        };
        (field("r")? == 0).then_some(field("t")? + 1)
    });
    let retry_after = || header(headers, "retry-after")?.trim().parse().ok();
    reset.or_else(retry_after).map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_may_leave_out_what_stays() {
        let url: Uri = "https://hub.example:8443/a/b?blobs=true".parse().unwrap();
        for (location, expected) in [
            ("http://cdn.example/x", "http://cdn.example/x"),
            ("//cdn.example/x", "https://cdn.example/x"),
            ("/x/y?z", "https://hub.example:8443/x/y?z"),
            ("x", "https://hub.example:8443/a/x"),
        ] {
            assert_eq!(join(&url, location).unwrap().to_string(), expected);
        }
        let same = |a: &str, b: &str| Origin::of(&a.parse().unwrap()) == Origin::of(&b.parse().unwrap());
        assert!(same("https://Hub.example/a", "https://hub.example:443/b"));
        assert!(!same("https://hub.example/", "https://hub.example:8443/"));
        assert!(!same("https://hub.example/", "http://hub.example/"));
    }

    #[test]
    fn the_wait_is_the_limits_or_that_of_retry_after() {
        let wait = |status, limit: &str, retry_after: &str| {
            let headers = [("ratelimit", limit), ("retry-after", retry_after)];
            let headers = headers.into_iter().filter(|(_, value)| !value.is_empty());
            let headers = headers.map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
            wanted_wait(status, &headers.collect()).map(|wait| wait.as_secs())
        };
        assert_eq!(wait(429, "\"api\";r=0;t=55", ""), Some(56));
        assert_eq!(wait(429, "\"api\"; r = 0 ; t = 55", "3"), Some(56));
        assert_eq!(wait(429, "\"api\";r=7;t=55", ""), None, "requests are left");
        assert_eq!(wait(429, "\"api\";r=7;t=55", "3"), Some(3));
        assert_eq!(wait(503, "\"api\";r=0;t=55", ""), None, "another reason");
        assert_eq!(wait(503, "", " 3 "), Some(3));
        assert_eq!(wait(503, "", "Wed, 21 Oct 2015 07:28:00 GMT"), None);
    }
}
