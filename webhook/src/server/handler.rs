//! `POST /mutate` and `POST /validate`.

use std::future::poll_fn;
use std::mem;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::Poll;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::{Bytes, BytesMut};
use futures::FutureExt as _;
use futures::future::join_all;
use http::header::{ALLOW, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Body;
use nodelife_admission::{
    AdmissionPhase, Decision, Evaluation, Lookups, Policies, Review, StatusReason, Verdict,
    WEBHOOK_TIMEOUT, decide, registered_resource, shown, write_response,
};
use tokio::time::error::Elapsed;
use tokio::time::{Instant, timeout_at};

use super::limit::{LARGEST_BODY, LARGEST_SENT, Limit, Share};
use super::lookup::{LookupClient, time_for_lookups};
use super::metrics::{DecisionLabels, Metrics};
use super::shutdown::Shutdown;
use super::tls::Certificates;

/// Default of the API server for a webhook without `timeoutSeconds`.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
const LONGEST_TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) struct State {
    pub(crate) policies: ArcSwap<Policies>,
    pub(crate) lookups: LookupClient,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) shutdown: Shutdown,
    pub(crate) certificates: Arc<Certificates>,
    pub(crate) listening: AtomicBool,
    limit: Limit,
}

impl State {
    pub(crate) fn new(
        policies: Policies,
        lookups: LookupClient,
        metrics: Arc<Metrics>,
        certificates: Arc<Certificates>,
    ) -> Self {
        Self {
            policies: ArcSwap::from_pointee(policies),
            lookups,
            metrics,
            shutdown: Shutdown::default(),
            certificates,
            listening: AtomicBool::new(false),
            limit: Limit::default(),
        }
    }

    pub(super) fn metrics(&self) -> Result<String, std::fmt::Error> {
        self.metrics.encode(self.limit.in_flight())
    }
}

pub(super) type Answer = Response<Full<Bytes>>;

pub(super) async fn answer<B>(state: &State, request: Request<B>, peer: IpAddr) -> Answer
where
    B: Body<Data = Bytes> + Unpin,
{
    let phase = match request.uri().path() {
        "/mutate" => AdmissionPhase::Mutating,
        "/validate" => AdmissionPhase::Validating,
        _ => return plain(StatusCode::NOT_FOUND, String::new()),
    };
    if request.method() != Method::POST {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, String::new());
        let headers = response.headers_mut();
        headers.insert(ALLOW, HeaderValue::from_static("POST"));
        return response;
    }
    isolated(&state.metrics, review(state, request, peer, phase)).await
}

fn plain(status: StatusCode, text: String) -> Answer {
    let mut response = Response::new(Full::from(text));
    *response.status_mut() = status;
    let plain = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

/// An HTTP status without a verdict, and its name in the metrics.
type Reason = (StatusCode, &'static str);

const BAD_REVIEW: Reason = (StatusCode::BAD_REQUEST, "bad_review");
const TOO_SLOW: Reason = (StatusCode::REQUEST_TIMEOUT, "too_slow");
const TOO_LARGE: Reason = (StatusCode::PAYLOAD_TOO_LARGE, "too_large");
const BAD_CONTENT_TYPE: Reason = (StatusCode::UNSUPPORTED_MEDIA_TYPE, "bad_content_type");
const TOO_BUSY: Reason = (StatusCode::SERVICE_UNAVAILABLE, "too_busy");
const LOOKUP_FAILED: Reason = (StatusCode::SERVICE_UNAVAILABLE, "lookup_failed");

struct Rejection {
    reason: Reason,
    text: String,
}

impl Rejection {
    fn new(reason: Reason, text: &str) -> Self {
        let text = shown(text).to_owned();
        Self { reason, text }
    }
}

/// Turns the result of `work` into a response. A panic ends only this call, with 500 and without
/// `Retry-After`, since the same review would panic again.
async fn isolated(
    metrics: &Metrics,
    work: impl Future<Output = Result<Bytes, Rejection>>,
) -> Answer {
    match AssertUnwindSafe(work).catch_unwind().await {
        Ok(Ok(body)) => {
            let json = HeaderValue::from_static("application/json");
            let mut response = Response::new(Full::new(body));
            response.headers_mut().insert(CONTENT_TYPE, json);
            response
        }
        Ok(Err(Rejection { reason, text })) => {
            let (status, name) = reason;
            metrics.rejected(name);
            tracing::warn!(
                status = status.as_u16(),
                error = text,
                "rejected a call without a verdict"
            );
            let mut response = plain(status, text + "\n");
            let headers = response.headers_mut();
            if status == StatusCode::SERVICE_UNAVAILABLE {
                // Keep the connection: a new handshake would only add load.
                headers.insert(RETRY_AFTER, HeaderValue::from_static("1"));
            } else {
                // The body may have unread bytes.
                headers.insert(CONNECTION, HeaderValue::from_static("close"));
            }
            response
        }
        Err(_) => {
            metrics.panics.inc();
            tracing::error!("panic while handling a review");
            plain(StatusCode::INTERNAL_SERVER_ERROR, String::new())
        }
    }
}

async fn review<B>(
    state: &State,
    request: Request<B>,
    peer: IpAddr,
    phase: AdmissionPhase,
) -> Result<Bytes, Rejection>
where
    B: Body<Data = Bytes> + Unpin,
{
    let begun = Instant::now();
    let (head, body) = request.into_parts();
    let timeout = timeout(&head.uri);
    let expected = expected_length(&head.headers)?;
    let mut share = state.limit.share(peer);
    // `timeout` comes from an untrusted client.
    let time = timeout.min(WEBHOOK_TIMEOUT);
    let bytes = soon(time, receive(body, expected, &mut share))
        .await
        .unwrap_or_else(|_| Err(Rejection::new(TOO_SLOW, "timed out reading the body")))?;
    if !share.begin() {
        return Err(too_busy());
    }
    let review =
        Review::begin(&bytes).map_err(|error| Rejection::new(BAD_REVIEW, &error.to_string()))?;
    let deadline = begun + time_for_lookups(timeout);
    let decision = verdict(state, &review, phase, peer, deadline).await;
    if let Verdict::Deny(denial) = &decision.verdict
        && denial.reason == StatusReason::ServiceUnavailable
    {
        // Not a verdict: another replica or `failurePolicy` decides.
        let text = denial.to_string();
        return Err(Rejection::new(LOOKUP_FAILED, &text));
    }
    // The uid and either a short status or a patch of two tolerations.
    let mut answer = Vec::with_capacity(768);
    write_response(&review, &decision, &mut answer);
    report(state, &review, phase, &decision, bytes.len(), begun);
    Ok(answer.into())
}

/// The length of the body; the API server always sends it.
fn expected_length(headers: &HeaderMap) -> Result<usize, Rejection> {
    let kind = headers
        .get(CONTENT_TYPE)
        .map_or(&b""[..], HeaderValue::as_bytes);
    if !kind.starts_with(b"application/json") {
        let text = "expected application/json";
        return Err(Rejection::new(BAD_CONTENT_TYPE, text));
    }
    let length = headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok());
    let length = length.map_or(Ok(LARGEST_BODY), str::parse);
    let length = length.ok().filter(|length| *length <= LARGEST_SENT);
    length.ok_or_else(too_large)
}

fn too_large() -> Rejection {
    let text = format!("the body exceeds the limit of {LARGEST_SENT} bytes");
    Rejection::new(TOO_LARGE, &text)
}

fn too_busy() -> Rejection {
    Rejection::new(TOO_BUSY, "too many concurrent reviews")
}

/// The body, whose bytes count against `share` as they arrive. Of a body that is too large, the
/// beginning: it has the names, and a rule that needs an object denies.
async fn receive(
    mut body: impl Body<Data = Bytes> + Unpin,
    expected: usize,
    share: &mut Share,
) -> Result<Bytes, Rejection> {
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let early = |_| Rejection::new(BAD_REVIEW, "the body ended early");
        let Ok(data) = frame.map_err(early)?.into_data() else {
            continue;
        };
        if whole.len() + data.len() > LARGEST_BODY {
            let mut sent = whole.len() + data.len();
            while let Some(Ok(frame)) = body.frame().await {
                sent += frame.data_ref().map_or(0, Bytes::len);
                if sent > LARGEST_SENT {
                    return Err(too_large());
                }
            }
            break;
        }
        if !share.grow(data.len()) {
            // A client that still sends at the close gets a reset, not the response, and does not retry.
            while let Some(Ok(_)) = body.frame().await {}
            return Err(too_busy());
        }
        if whole.is_empty() && data.len() == expected {
            return Ok(data);
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}

/// The result of `work` within `limit`. Most bodies have arrived with their head and are ready at
/// the second poll; only for the others a timer is registered with the runtime. `DeadlineStream` has
/// the connection polled again if a body does not arrive.
async fn soon<T>(limit: Duration, work: impl Future<Output = T>) -> Result<T, Elapsed> {
    let mut work = pin!(work);
    let end = Instant::now() + limit;
    let mut looked = false;
    let at_once = poll_fn(|context| match work.as_mut().poll(context) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if mem::replace(&mut looked, true) => Poll::Ready(None),
        Poll::Pending => Poll::Pending,
    });
    match at_once.await {
        Some(done) => Ok(done),
        None => timeout_at(end, work).await,
    }
}

/// `?timeout=10s`, the time that the API server has left for this call.
fn timeout(uri: &Uri) -> Duration {
    let query = uri.query().unwrap_or_default();
    let value = query
        .split('&')
        .find_map(|pair| pair.strip_prefix("timeout="));
    let seconds = value.and_then(|value| value.strip_suffix('s')?.parse().ok());
    seconds
        .map_or(DEFAULT_TIMEOUT, Duration::from_secs)
        .min(LONGEST_TIMEOUT)
}

async fn verdict(
    state: &State,
    review: &Review<'_>,
    phase: AdmissionPhase,
    peer: IpAddr,
    deadline: Instant,
) -> Decision {
    let policies = state.policies.load_full();
    let mut lookups = Lookups::new();
    loop {
        match decide(&review.request, &policies, phase, &lookups) {
            Evaluation::Decided(decision) => return decision,
            Evaluation::Needs(needed) => {
                let answers = needed.into_iter().map(async |lookup| {
                    let answer = state.lookups.answer(&lookup, peer, deadline).await;
                    state.metrics.looked_up(&answer);
                    (lookup, answer)
                });
                lookups.extend(join_all(answers).await);
            }
        }
    }
}

/// Counts the decision, and logs it unless it is a plain allow. Objects are never logged.
fn report(
    state: &State,
    review: &Review<'_>,
    phase: AdmissionPhase,
    decision: &Decision,
    bytes: usize,
    begun: Instant,
) {
    let took = begun.elapsed();
    let request = &review.request;
    let (group, resource) = request.group_resource();
    let result = match &decision.verdict {
        Verdict::Deny(_) => "deny",
        Verdict::Patch(_) => "mutate",
        Verdict::Allow if decision.refusal.is_some() => "warn",
        Verdict::Allow => "allow",
    };
    let refusal = decision.refusal.as_ref();
    let policy = refusal.map_or("none", |refusal| refusal.denial.rule.as_str());
    let labels = DecisionLabels {
        webhook: match phase {
            AdmissionPhase::Mutating => "mutate",
            AdmissionPhase::Validating => "validate",
        },
        policy,
        operation: request.operation().as_str(),
        resource: registered_resource(resource).unwrap_or("other"),
        result,
    };
    state.metrics.decided(&labels, bytes, took);
    let Some(refusal) = refusal else { return };
    tracing::info!(
        uid = review.uid.trim_matches('"'),
        user = shown(request.user().name()),
        operation = request.operation().as_str(),
        group = shown(group),
        version = shown(request.version()),
        resource = shown(resource),
        subresource = shown(request.subresource()),
        namespace = shown(request.namespace()),
        name = shown(request.name()),
        dry_run = request.dry_run(),
        policy,
        mode = refusal.mode.as_str(),
        reason = shown(&refusal.denial.message),
        found = shown(&refusal.denial.found),
        microseconds = u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        "refused"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const PEER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    /// A log keeps the decisions of the last days, whatever somebody sends.
    #[tokio::test]
    async fn an_answer_holds_the_beginning_of_a_text() {
        let state = State::new(
            Policies::default(),
            LookupClient::connect(None).await.unwrap(),
            Arc::new(Metrics::new()),
            Arc::new(Certificates::default()),
        );
        let long = "é".repeat(1 << 20);
        let node = json!({"username": "system:node:n1", "groups": ["system:nodes"]});
        let named = json!({"uid": "u", "operation": "UPDATE", "name": long, "userInfo": node,
            "resource": {"group": "", "version": "v1", "resource": "nodes"},
            "object": {}, "oldObject": {}});
        let good = "admission.k8s.io/v1";
        for (version, request) in [(good, &named), (long.as_str(), &json!({}))] {
            let kind = "AdmissionReview";
            let review = json!({"apiVersion": version, "kind": kind, "request": request});
            let request = Request::post("/validate")
                .header(CONTENT_TYPE, "application/json")
                .body(Full::from(review.to_string()))
                .unwrap();
            let answered = answer(&state, request, PEER).await;
            let body = answered.into_body().collect().await.unwrap().to_bytes();
            assert!((100..3000).contains(&body.len()), "{}", body.len());
        }
    }

    /// Every tenth review panics after it has taken its share.
    #[tokio::test]
    async fn a_panic_in_one_review_is_a_500_and_does_not_affect_others() {
        const CALLS: usize = 90;
        let metrics = Arc::new(Metrics::new());
        let state = Arc::new(State::new(
            Policies::default(),
            LookupClient::connect(None).await.unwrap(),
            Arc::clone(&metrics),
            Arc::new(Certificates::default()),
        ));
        let broken = async |request: Request<Full<Bytes>>| {
            isolated(&state.metrics, async {
                let mut share = state.limit.share(PEER);
                let _body = receive(request.into_body(), 1000, &mut share).await?;
                assert!(share.begin());
                panic!("a defect")
            })
            .await
        };
        let review = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "request": {"uid": "u", "operation": "CREATE", "name": "n",
                "resource": {"group": "", "version": "v1", "resource": "pods"},
                "object": {"spec": {}}}})
        .to_string();
        let calls = (0..CALLS).map(async |index| {
            let is_broken = index % 10 == 0;
            let request = Request::post("/mutate")
                .header(CONTENT_TYPE, "application/json")
                .body(Full::from(review.clone()))
                .unwrap();
            let answer = if is_broken {
                broken(request).await
            } else {
                answer(&state, request, PEER).await
            };
            (is_broken, answer)
        });
        for (is_broken, answer) in join_all(calls).await {
            let wanted = if is_broken { 500 } else { 200 };
            assert_eq!(answer.status(), wanted);
            assert!(!answer.headers().contains_key(RETRY_AFTER));
        }
        // The panicked reviews released their shares.
        assert_eq!(state.limit.in_flight(), 0);
        let text = state.metrics().unwrap();
        assert!(text.contains("\nnodelife_panics_total 9\n"), "{text}");
    }

    #[test]
    fn the_timeout_comes_from_the_query() {
        for (uri, seconds) in [
            ("/validate?timeout=2s", 2),
            ("/validate?a=b&timeout=5s", 5),
            ("/validate", 10),
            ("/validate?timeout=x", 10),
            ("/validate?timeout=900s", 30),
        ] {
            let uri: Uri = uri.parse().unwrap();
            assert_eq!(timeout(&uri), Duration::from_secs(seconds), "{uri}");
        }
    }
}
