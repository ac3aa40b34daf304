//! One WebSocket of `pods/exec` or `pods/attach`, in the protocol `v5.channel.k8s.io` or `v4.channel.k8s.io`: the first
//! byte of each message is its channel. The former protocol, which is the last before Kubernetes 1.30, has no message for
//! the end of the input.

use std::convert::Infallible;
use std::io::ErrorKind;
use std::pin::pin;

use client::Client;
use futures::future::BoxFuture;
use futures::stream::SplitSink;
use futures::{FutureExt, SinkExt, StreamExt};
use http::header::{
    CONNECTION, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, SEC_WEBSOCKET_PROTOCOL, SEC_WEBSOCKET_VERSION, UPGRADE,
};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc::Receiver;
use tokio_tungstenite::tungstenite::error::ProtocolError;
use tokio_tungstenite::tungstenite::handshake::{client::generate_key, derive_accept_key};
use tokio_tungstenite::tungstenite::protocol::{Message, Role};
use tokio_tungstenite::{WebSocketStream, tungstenite};

use crate::requests;

const PROTOCOL: &str = "v5.channel.k8s.io";
const FORMER: &str = "v4.channel.k8s.io";

const STDIN: u8 = 0;
const STDOUT: u8 = 1;
const STDERR: u8 = 2;
const ERROR: u8 = 3;
const RESIZE: u8 = 4;
const CLOSE: u8 = 255;

/// Data for the container.
#[derive(Debug)]
pub enum Input {
    Bytes(Vec<u8>),
    /// Columns and rows of the terminal.
    Size(u16, u16),
    /// The end of the standard input.
    End,
}

/// Data from the container.
#[derive(Debug, PartialEq, Eq)]
pub enum Output {
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
}

/// How the command ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End {
    Success,
    /// It ran and ended with this code.
    Code(u8),
    Failed(String),
    /// The reader of the output has gone.
    Unread,
}

/// An open stream.
pub struct Session<S = TokioIo<Upgraded>> {
    socket: WebSocketStream<S>,
    /// Whether the end of the input can be sent.
    pub ends_input: bool,
}

/// Opens the stream at a path of the server.
///
/// # Errors
/// The server's refusal.
pub fn open<'a>(client: &'a Client, path: &'a str) -> BoxFuture<'a, Result<Session, client::Error>> {
    Box::pin(async move {
        let attempt = format!("GET {}", path.split('?').next().unwrap_or(path));
        let key = generate_key();
        let request = http::Request::get(path)
            .header(CONNECTION, "Upgrade")
            .header(UPGRADE, "websocket")
            .header(SEC_WEBSOCKET_VERSION, "13")
            .header(SEC_WEBSOCKET_KEY, &key)
            .header(SEC_WEBSOCKET_PROTOCOL, format!("{PROTOCOL},{FORMER}"))
            .body(transport::empty())
            .map_err(|error| client::Error::Request { attempt: attempt.clone(), why: error.to_string() })?;
        let wrong = |why: String| client::Error::Decode { attempt: attempt.clone(), why };
        let mut response = client.send(request).await?;
        if response.status() != http::StatusCode::SWITCHING_PROTOCOLS {
            let status = response.status();
            let bytes = requests::whole(response.into_body()).await.unwrap_or_default();
            return Err(requests::refusal(status, &bytes));
        }
        let ends_input = answers(response.headers(), &key).map_err(wrong)? == PROTOCOL;
        let upgraded = hyper::upgrade::on(&mut response).await;
        let upgraded = upgraded.map_err(|error| wrong(format!("unable to upgrade connection: {error}")))?;
        let socket = WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Client, None).await;
        Ok(Session { socket, ends_input })
    })
}

/// The protocol of a handshake that is the answer to the request with that key.
fn answers(headers: &http::HeaderMap, key: &str) -> Result<&'static str, String> {
    let header = |name| headers.get(name).and_then(|value| value.to_str().ok());
    if header(SEC_WEBSOCKET_ACCEPT) != Some(&derive_accept_key(key.as_bytes())) {
        return Err("the server's handshake is not an answer to this request".into());
    }
    let chosen = header(SEC_WEBSOCKET_PROTOCOL).unwrap_or_default();
    let known = [PROTOCOL, FORMER].into_iter().find(|known| *known == chosen);
    known.ok_or_else(|| format!("the server supports neither {PROTOCOL} nor {FORMER}; it answered with {chosen:?}"))
}

/// Why a session ended before its command. The text of the TLS library about a server that stops is for programmers.
fn broken(error: &tungstenite::Error) -> String {
    let why = match error {
        tungstenite::Error::Io(error) if error.kind() == ErrorKind::UnexpectedEof => None,
        tungstenite::Error::Protocol(ProtocolError::ResetWithoutClosingHandshake) => None,
        error => Some(error.to_string()),
    };
    match why {
        None => "the connection broke: the server closed it before the command ended".to_owned(),
        Some(why) => format!("the connection broke: {why}"),
    }
}

/// Carries input and output until the command ends.
pub fn run<'a, S: AsyncRead + AsyncWrite + Unpin + Send + 'a>(
    session: Session<S>,
    input: Receiver<Input>,
    mut output: impl FnMut(Output) -> bool + Send + 'a,
) -> BoxFuture<'a, End> {
    async move {
        let (sink, mut stream) = session.socket.split();
        let mut forwarded = pin!(forward(sink, input, session.ends_input));
        loop {
            tokio::select! {
                message = stream.next() => match message {
                    None => return End::Success,
                    Some(Err(error)) => return End::Failed(broken(&error)),
                    Some(Ok(message)) => match received(message) {
                        Received::Output(bytes) => {
                            if !output(bytes) {
                                return End::Unread;
                            }
                        }
                        Received::End(end) => return end,
                        Received::Nothing => {}
                    },
                },
                never = &mut forwarded => match never {},
            }
        }
    }
    .boxed()
}

/// Sends the input. Output is read meanwhile: a member that waits until its output is read takes no more input.
async fn forward<S: AsyncRead + AsyncWrite + Unpin>(
    mut sink: SplitSink<WebSocketStream<S>, Message>,
    mut input: Receiver<Input>,
    ends_input: bool,
) -> Infallible {
    while let Some(next) = input.recv().await {
        if matches!(next, Input::End) && !ends_input {
            continue;
        }
        if sink.send(Message::binary(message(next))).await.is_err() {
            // The reason, if any, arrives from the other direction.
            break;
        }
    }
    std::future::pending().await
}

fn message(input: Input) -> Vec<u8> {
    match input {
        Input::Bytes(bytes) => [&[STDIN], bytes.as_slice()].concat(),
        Input::Size(width, height) => {
            let size = format!("{{\"Width\":{width},\"Height\":{height}}}");
            [&[RESIZE], size.as_bytes()].concat()
        }
        Input::End => vec![CLOSE, STDIN],
    }
}

enum Received {
    Output(Output),
    End(End),
    Nothing,
}

fn received(message: Message) -> Received {
    let bytes = match message {
        Message::Binary(bytes) => bytes.to_vec(),
        Message::Close(_) => return Received::End(End::Success),
        _ => return Received::Nothing,
    };
    match bytes.split_first() {
        Some((&STDOUT, rest)) if !rest.is_empty() => Received::Output(Output::Stdout(rest.to_vec())),
        Some((&STDERR, rest)) if !rest.is_empty() => Received::Output(Output::Stderr(rest.to_vec())),
        Some((&ERROR, rest)) if !rest.is_empty() => Received::End(ended(rest)),
        _ => Received::Nothing,
    }
}

/// The Status at the end: success, the command's exit code, or why it did not run.
fn ended(status: &[u8]) -> End {
    let Ok(status) = serde_json::from_slice::<Value>(status) else {
        return End::Failed(String::from_utf8_lossy(status).into_owned());
    };
    if status["status"] == "Success" {
        return End::Success;
    }
    let causes = status["details"]["causes"].as_array().map_or(&[][..], Vec::as_slice);
    let code = causes.iter().find(|cause| cause["reason"] == "ExitCode");
    let code = code.and_then(|cause| cause["message"].as_str()?.parse::<i64>().ok());
    match code.filter(|_| status["reason"] == "NonZeroExitCode") {
        // The lowest eight bits of the code, as in the shell.
        Some(code) => End::Code(u8::try_from(code & 0xff).unwrap_or(1)),
        None => End::Failed(status["message"].as_str().unwrap_or("the command failed").to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn output_is_read_while_input_waits() {
        let (ours, theirs) = tokio::io::duplex(1024);
        let (ours, mut member) = tokio::join!(
            WebSocketStream::from_raw_socket(ours, Role::Client, None),
            WebSocketStream::from_raw_socket(theirs, Role::Server, None),
        );
        // Each message is returned before the next is read.
        tokio::spawn(async move {
            while let Some(Ok(message)) = member.next().await {
                let bytes = message.into_data();
                let answer = match bytes.split_first() {
                    Some((&STDIN, rest)) => [&[STDOUT], rest].concat(),
                    _ => [&[ERROR], br#"{"status":"Success"}"#.as_slice()].concat(),
                };
                member.send(Message::binary(answer)).await.expect("sent");
            }
        });
        let (sender, input) = tokio::sync::mpsc::channel(64);
        for _ in 0..32 {
            sender.send(Input::Bytes(vec![b'x'; 32 * 1024])).await.expect("room");
        }
        sender.send(Input::End).await.expect("room");
        let mut read = 0;
        let count = |output: Output| {
            read += if let Output::Stdout(bytes) = output { bytes.len() } else { 0 };
            true
        };
        let session = Session { socket: ours, ends_input: true };
        let end = tokio::time::timeout(std::time::Duration::from_secs(60), run(session, input, count)).await;
        assert_eq!((end.expect("no deadlock"), read), (End::Success, 32 * 32 * 1024));
    }

    #[test]
    fn a_server_that_stops_is_reported_in_the_users_words() {
        let closed = "the connection broke: the server closed it before the command ended";
        let tls =
            std::io::Error::new(ErrorKind::UnexpectedEof, "peer closed connection without sending TLS close_notify");
        assert_eq!(broken(&tungstenite::Error::Io(tls)), closed);
        assert_eq!(broken(&tungstenite::Error::Protocol(ProtocolError::ResetWithoutClosingHandshake)), closed);
        assert!(broken(&tungstenite::Error::Io(ErrorKind::ConnectionReset.into())).ends_with("connection reset"));
    }

    #[test]
    fn exit_statuses_are_read() {
        for (status, expected) in [
            (r#"{"status":"Success"}"#, End::Success),
            (
                r#"{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"7"}]}}"#,
                End::Code(7),
            ),
            (r#"{"status":"Failure","message":"no"}"#, End::Failed("no".into())),
            ("broken", End::Failed("broken".into())),
        ] {
            assert_eq!(ended(status.as_bytes()), expected, "{status}");
        }
        assert_eq!(message(Input::Size(80, 24)), b"\x04{\"Width\":80,\"Height\":24}");
        assert_eq!(message(Input::End), [255, 0]);
    }
}
