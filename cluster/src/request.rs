//! Requests to the API server: limits, retries of reads, errors.
//!
//! kube's `Client::request` copies each body twice and logs it when it does not
//! decode; here a body is bounded, held once and never logged. The headers stay:
//! `Retry-After`, `Warning` and `Date` matter to a drain and to an audit.

use std::sync::PoisonError;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, header};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::client::Body;
use nodelife_core::node_marks::FIELD_MANAGER;
use nodelife_core::response::ApiResponse;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::client::Cluster;
use crate::error::{ApiError, ApiResult, Forbidden};
use crate::resource::{Target, escape};
use crate::retry::{self, Backoff};
use crate::warning;
use crate::wire::{self, Encoding};

/// The longest answer that we hold: a page of 500 large objects, which etcd holds below 1.5 MiB.
const MAX_BODY: usize = 256 << 20;

/// How much of a body that is not a `Status` is kept for people to read.
pub(crate) const MAX_TEXT: usize = 512;

/// For how long a read is repeated: an API server restarts within this time.
const READ_RETRY_LIMIT: Duration = Duration::from_secs(30);

/// How long after it could not be reached the server may still be reading the roles.
const STARTING: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub struct Call {
    method: Method,
    verb: &'static str,
    target: Option<Target>,
    path: String,
    query: Vec<(&'static str, String)>,
    accept: &'static str,
    compressed: bool,
    headers: Vec<(&'static str, String)>,
    body: Option<(&'static str, Bytes)>,
    room: usize,
    most: usize,
}

impl Call {
    pub fn path(path: &str) -> Self {
        Self {
            method: Method::GET,
            verb: "get",
            target: None,
            path: path.to_owned(),
            query: Vec::new(),
            accept: "application/json",
            compressed: true,
            headers: Vec::new(),
            body: None,
            room: 0,
            most: MAX_BODY,
        }
    }

    /// Acts on an object or on a list: `verb` is RBAC's.
    pub fn on(method: Method, verb: &'static str, target: Target) -> Self {
        Self {
            method,
            verb,
            path: target.path(),
            target: Some(target),
            ..Self::path("")
        }
    }

    pub fn get(target: Target) -> Self {
        Self::on(Method::GET, "get", target)
    }

    /// Creates an object or a subresource's document (an eviction, an access review).
    pub fn create<B: Serialize>(target: Target, body: &B) -> ApiResult<Self> {
        Self::on(Method::POST, "create", target).with_json("application/json", body)
    }

    pub(crate) fn patch<B: Serialize>(
        target: Target,
        content_type: &'static str,
        body: &B,
    ) -> ApiResult<Self> {
        Self::on(Method::PATCH, "patch", target)
            .with_query("fieldManager", FIELD_MANAGER)
            .with_json(content_type, body)
    }

    pub(crate) fn delete(target: Target, preconditions: &Value) -> ApiResult<Self> {
        let options = json!({
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": preconditions,
        });
        Self::on(Method::DELETE, "delete", target).with_json("application/json", &options)
    }

    #[must_use]
    pub fn with_query(mut self, key: &'static str, value: impl Into<String>) -> Self {
        self.query.push((key, value.into()));
        self
    }

    #[must_use]
    pub fn with_accept(mut self, accept: &'static str) -> Self {
        self.accept = accept;
        self
    }

    /// Asks for a body that is not compressed: from 1.37 on the API server compresses
    /// each event of a watch on its own, and the client reads the first one alone.
    #[must_use]
    pub(crate) fn uncompressed(mut self) -> Self {
        self.compressed = false;
        self
    }

    /// Expects about so many bytes: room that grows by doubling is held twice each time.
    #[must_use]
    pub(crate) fn with_room(mut self, bytes: usize) -> Self {
        self.room = bytes;
        self
    }

    /// Takes no longer answer than of so many bytes.
    #[must_use]
    pub fn with_most(mut self, bytes: usize) -> Self {
        self.most = bytes;
        self
    }

    /// Asks as somebody else; needs the right to impersonate the user and each of the groups.
    #[must_use]
    pub fn impersonating(mut self, user: &str, groups: &[&str]) -> Self {
        self.headers.push(("impersonate-user", user.to_owned()));
        let groups = groups.iter().map(|group| (*group).to_owned());
        self.headers
            .extend(groups.map(|group| ("impersonate-group", group)));
        self
    }

    /// Sends a document; [`ApiError::Malformed`] if `body` does not serialise.
    pub fn with_json<B: Serialize>(
        mut self,
        content_type: &'static str,
        body: &B,
    ) -> ApiResult<Self> {
        let bytes = serde_json::to_vec(body).map_err(|error| self.malformed(&error))?;
        self.body = Some((content_type, Bytes::from(bytes)));
        Ok(self)
    }

    pub(crate) fn malformed(&self, reason: &dyn std::fmt::Display) -> ApiError {
        ApiError::Malformed {
            path: self.path.clone(),
            reason: reason.to_string(),
        }
    }

    pub(crate) fn too_large(&self, limit: usize) -> ApiError {
        let path = self.path.clone();
        ApiError::TooLarge { path, limit }
    }

    pub fn uri(&self) -> String {
        let mut uri = self.path.clone();
        for (index, (key, value)) in self.query.iter().enumerate() {
            uri.push(if index == 0 { '?' } else { '&' });
            uri.push_str(key);
            uri.push('=');
            uri.extend(escape(value));
        }
        uri
    }

    fn request(&self) -> ApiResult<http::Request<Body>> {
        let mut request = http::Request::builder()
            .method(&self.method)
            .uri(self.uri())
            .header(header::ACCEPT, self.accept);
        if !self.compressed {
            request = request.header(header::ACCEPT_ENCODING, "identity");
        }
        for (name, value) in &self.headers {
            request = request.header(*name, value);
        }
        let body = match &self.body {
            None => Body::empty(),
            Some((content_type, bytes)) => {
                request = request.header(header::CONTENT_TYPE, *content_type);
                Body::from(bytes.clone())
            }
        };
        request.body(body).map_err(|error| self.malformed(&error))
    }
}

/// Sees the body of a success while it comes: the headers, and the bytes that are here.
pub(crate) type Observer<'a> = &'a (dyn Fn(&HeaderMap, &[u8]) + Send + Sync);

pub(crate) const NO_OBSERVER: Observer<'static> = &|_, _| {};

#[derive(Clone, Debug)]
pub struct Response {
    code: u16,
    pub(crate) headers: HeaderMap,
    body: Bytes,
}

impl Response {
    pub fn code(&self) -> u16 {
        self.code
    }

    pub fn body(&self) -> &Bytes {
        &self.body
    }

    pub(crate) fn into_body(self) -> Bytes {
        self.body
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }

    pub fn json<T: DeserializeOwned>(&self, call: &Call) -> ApiResult<T> {
        crate::json::read(&self.body).map_err(|error| call.malformed(&error))
    }

    pub fn raw(&self) -> ApiResponse {
        let kind = self.header("content-type");
        let status = match Encoding::of(&self.headers) {
            Encoding::Json if !kind.is_some_and(|kind| kind.starts_with("application/json")) => {
                None
            }
            encoding => wire::status(encoding, &self.body),
        };
        let is_text = status.is_none() && !self.body.is_empty();
        ApiResponse {
            code: self.code,
            status,
            text: is_text.then(|| beginning(&self.body)),
            retry_after: self
                .header("retry-after")
                .and_then(|seconds| seconds.trim().parse().ok()),
            warnings: warning::texts(&self.headers).collect(),
        }
    }
}

/// The beginning of a body, for people to read.
pub(crate) fn beginning(body: &[u8]) -> String {
    let start = body.get(..MAX_TEXT).unwrap_or(body);
    String::from_utf8_lossy(start).into_owned()
}

impl Cluster {
    /// Sends once. Every HTTP status is an answer; an error means that there was none.
    pub async fn exchange(&self, call: &Call) -> ApiResult<Response> {
        self.exchange_observed(call, NO_OBSERVER).await
    }

    async fn exchange_observed(&self, call: &Call, observer: Observer<'_>) -> ApiResult<Response> {
        let whole = async {
            let response = self.open(call).await?;
            self.collect(call, response, observer).await
        };
        match self.timeout {
            None => whole.await,
            Some(limit) => tokio::time::timeout(limit, whole)
                .await
                .unwrap_or_else(|_elapsed| {
                    Err(ApiError::Timeout {
                        server: self.server.to_string(),
                        after: limit,
                    })
                }),
        }
    }

    /// Sends, and hands back the answer with its body still to come.
    pub(crate) async fn open(&self, call: &Call) -> ApiResult<http::Response<Body>> {
        let request = call.request()?;
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let started = Instant::now();
        let sent = self.session.client().send(request).await;
        let took = started.elapsed();
        // kubectl's line, at its level: no header is in it, and so no secret.
        let answer = sent.as_ref().map_or_else(
            |_| "no answer".to_owned(),
            |response| response.status().to_string(),
        );
        tracing::debug!(
            "{method} {}{uri} {answer} in {} milliseconds",
            self.server,
            took.as_millis()
        );
        let response = sent.map_err(|error| {
            *self.lost.lock().unwrap_or_else(PoisonError::into_inner) = Some(started);
            retry::unreachable(&self.server, &error)
        })?;
        let date = response.headers().get(http::header::DATE);
        self.reached
            .observe(date.and_then(|date| date.to_str().ok()), took);
        self.warnings.record(response.headers());
        if response.status() == http::StatusCode::UNAUTHORIZED {
            // The answer stands: whoever repeats the request does so with what is new.
            self.session.renew().await;
        }
        Ok(response)
    }

    pub(crate) async fn collect(
        &self,
        call: &Call,
        response: http::Response<Body>,
        observer: Observer<'_>,
    ) -> ApiResult<Response> {
        let (parts, body) = response.into_parts();
        let mut body = Limited::new(body, call.most);
        // Piece by piece into one place: `Collected` keeps all pieces until it copies them.
        let mut bytes = Vec::with_capacity(call.room);
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| {
                if error.is::<LengthLimitError>() {
                    return call.too_large(call.most);
                }
                retry::unreachable(&self.server, &*error)
            })?;
            if let Ok(data) = frame.into_data() {
                bytes.extend_from_slice(&data);
                if parts.status.is_success() {
                    observer(&parts.headers, &bytes);
                }
            }
        }
        Ok(Response {
            code: parts.status.as_u16(),
            headers: parts.headers,
            body: Bytes::from(bytes),
        })
    }

    /// Turns every status that is no success into the error that it means.
    pub(crate) fn accept(&self, call: &Call, answer: Response) -> ApiResult<Response> {
        let code = answer.code;
        if (200..300).contains(&code) {
            return Ok(answer);
        }
        let raw = answer.raw();
        Err(match (code, &call.target) {
            (401, _) => ApiError::Unauthorized {
                server: self.server.to_string(),
                advice: self.credentials.advice(self.clock().now()),
            },
            (403, Some(target)) => ApiError::Forbidden(Box::new(Forbidden {
                verb: call.verb,
                target: target.clone(),
                answer: raw,
            })),
            (404, _) => ApiError::NotFound(Box::new(raw)),
            (409, _) => ApiError::Conflict(Box::new(raw)),
            (410, _) => ApiError::Expired(Box::new(raw)),
            _ => ApiError::Refused(Box::new(raw)),
        })
    }

    pub async fn call(&self, call: &Call) -> ApiResult<Response> {
        let answer = self.exchange(call).await?;
        self.accept(call, answer)
    }

    /// Sends something that changes nothing, and again for up to 30 s while the server
    /// is overloaded, restarting or cut off. Its `Retry-After` is kept. A write that leaves the
    /// same behind however often it is done may be sent so, too.
    pub async fn read(&self, call: &Call) -> ApiResult<Response> {
        self.read_observed(call, NO_OBSERVER).await
    }

    /// As [`Cluster::read`]; `observer` sees a body again from its beginning where it broke off.
    pub(crate) async fn read_observed(
        &self,
        call: &Call,
        observer: Observer<'_>,
    ) -> ApiResult<Response> {
        let end = Instant::now() + READ_RETRY_LIMIT;
        let mut backoff = Backoff::for_reads();
        loop {
            let answer = self.exchange_observed(call, observer).await;
            let error = match answer.and_then(|answer| self.accept(call, answer)) {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let first_contact = error.answer().is_none() && self.reached.get().is_none();
            let wait = backoff.next(error.answer().and_then(|answer| answer.retry_after));
            let may_pass = error.is_transient()
                || matches!(error, ApiError::Forbidden(_)) && self.may_be_starting();
            if !may_pass || first_contact || Instant::now() + wait > end {
                return Err(error);
            }
            tracing::debug!(path = %call.path, %error, ?wait, "trying again");
            tokio::time::sleep(wait).await;
        }
    }

    fn may_be_starting(&self) -> bool {
        let lost = *self.lost.lock().unwrap_or_else(PoisonError::into_inner);
        lost.is_some_and(|lost| lost.elapsed() < STARTING)
    }

    pub async fn get<T: DeserializeOwned>(&self, target: Target) -> ApiResult<Option<T>> {
        let call = Call::get(target);
        match self.read(&call).await {
            Ok(answer) => answer.json(&call).map(Some),
            Err(ApiError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
impl Call {
    pub(crate) fn sent(&self) -> Value {
        let (_, body) = self.body.as_ref().unwrap();
        serde_json::from_slice(body).unwrap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(content_type: &str, headers: &[(&'static str, &str)], body: &str) -> ApiResponse {
        let mut map = HeaderMap::new();
        map.insert("content-type", content_type.parse().unwrap());
        for (name, value) in headers {
            map.append(*name, value.parse().unwrap());
        }
        Response {
            code: 429,
            headers: map,
            body: Bytes::copy_from_slice(body.as_bytes()),
        }
        .raw()
    }

    #[test]
    fn a_budgets_refusal_keeps_cause_and_retry_after() {
        let body = r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Cannot evict pod as it would violate the pod's disruption budget.","reason":"TooManyRequests","details":{"causes":[{"reason":"DisruptionBudget","message":"The disruption budget c3 is still being processed by the server."}],"retryAfterSeconds":10},"code":429}"#;
        let raw = answer("application/json", &[("retry-after", "10")], body);
        let status = raw.status.unwrap();
        let cause = status.cause("DisruptionBudget").unwrap();
        assert!(cause.message.contains("budget c3"));
        assert_eq!(status.details.unwrap().retry_after_seconds, 10);
        assert_eq!((raw.retry_after, raw.text), (Some(10), None));
    }

    #[test]
    fn plain_text_of_priority_and_fairness_is_no_status() {
        let text = "Too many requests, please try again later.\n";
        let raw = answer("text/plain; charset=utf-8", &[("retry-after", "1")], text);
        assert_eq!(raw.status, None);
        assert_eq!(
            (raw.retry_after, raw.text.as_deref()),
            (Some(1), Some(text))
        );
    }
}
