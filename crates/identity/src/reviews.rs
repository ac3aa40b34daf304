//! Reviews that webhooks answer: posted within a time-out, repeated when another attempt may succeed, bounded in number
//! and size.

use std::time::Duration;

use bytes::Bytes;
use client::Client;
use client::kubeconfig::Places;
use http::StatusCode;
use serde_json::Value;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};

/// As in kube-apiserver: the first pause, and its growth.
const PAUSE: Duration = Duration::from_millis(500);
const FACTOR: f64 = 1.5;
const ATTEMPTS: u32 = 5;
/// A review has a few KiB.
const MAX_RESPONSE: usize = 1 << 20;
/// Reviews in flight, each on a connection of its own; more wait.
const MAX_CALLS: usize = 100;
const AGENT: &str = "kube-apiserver";

/// The version of the reviews.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// `v1`.
    V1,
    /// `v1beta1`: kube-apiserver's default.
    #[default]
    V1Beta1,
}

impl Version {
    /// Its name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V1 => "v1",
            Self::V1Beta1 => "v1beta1",
        }
    }
}

/// A webhook that answers reviews.
pub struct Reviewer {
    client: Client,
    path: String,
    timeout: Duration,
    calls: Semaphore,
}

impl Reviewer {
    /// The webhook of a kubeconfig. `timeout` is that of a review with all its attempts.
    ///
    /// # Errors
    /// Why the kubeconfig cannot be used.
    pub async fn of_kubeconfig(places: &Places, timeout: Duration) -> Result<Self, client::Error> {
        let (client, path) = places.connect_to_webhook().await?;
        Ok(Self { client, path, timeout, calls: Semaphore::new(MAX_CALLS) })
    }

    /// The answered review.
    ///
    /// # Errors
    /// Why there is no answer.
    pub(crate) async fn review(&self, review: &Value) -> Result<Value, String> {
        let answered = async {
            let _call = self.calls.acquire().await.map_err(|error| error.to_string())?;
            let body = Bytes::from(serde_json::to_vec(review).map_err(|error| error.to_string())?);
            let mut pause = PAUSE;
            for attempt in 1.. {
                match self.post(body.clone()).await {
                    Ok(answer) => return Ok(answer),
                    Err((why, may_pass)) if !may_pass || attempt == ATTEMPTS => return Err(why),
                    Err(_) => sleep(pause).await,
                }
                pause = pause.mul_f64(FACTOR);
            }
            Err(String::new())
        };
        let answer: Value = match timeout(self.timeout, answered).await {
            Ok(answer) => answer?,
            Err(_) => return Err(format!("no answer within {} s", self.timeout.as_secs_f64())),
        };
        for field in ["apiVersion", "kind"] {
            if answer[field] != review[field] {
                return Err(format!("the answer has {field} {}, not {}", answer[field], review[field]));
            }
        }
        Ok(answer)
    }

    /// The reason of a failure, and whether another attempt may succeed.
    async fn post(&self, body: Bytes) -> Result<Value, (String, bool)> {
        let failed = |error: client::Error| (error.cause(), true);
        let reply = self.client.post_review(&self.path, AGENT, body).await.map_err(failed)?;
        let status = reply.code;
        let body = reply.read(MAX_RESPONSE).await.map_err(failed)?;
        if !status.is_success() {
            let may_pass = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
            return Err((format!("the webhook answered {status}"), may_pass));
        }
        serde_json::from_slice(&body).map_err(|_| ("the answer is not JSON".to_owned(), false))
    }
}
