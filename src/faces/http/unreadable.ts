/**
 * Requests that never become one: what Node's parser or the router cannot read gets the error body and a request
 * id like any other.
 */
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { type Answer, problem } from "./answer.js";
import { inNodeWords, isNodePath, withRequestId } from "./v1-errors.js";

const contentType = "application/json; charset=utf-8";

/** `requestId` makes the id that the reply carries. */
export function answerUnreadable(requestId: () => string) {
  /** The connection cannot go on after it. */
  const sayLast = (socket: Duplex, { status, body }: Answer): void => {
    if (!socket.writable || isBusy(socket)) {
      socket.destroy();
      return;
    }
    const id = requestId();
    const text = JSON.stringify({ ...(body as object), request_id: id });
    socket.end(
      `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nX-Request-Id: ${id}\r\nContent-Type: ${contentType}\r\n` +
        `Content-Length: ${Buffer.byteLength(text)}\r\nConnection: close\r\n\r\n${text}`,
      () => socket.destroy(),
    );
  };
  return {
    /** Broken framing, headers that are too large or too slow. */
    clientError(error: NodeJS.ErrnoException, socket: Socket): void {
      if (error.code === "ECONNRESET") socket.destroy(error);
      else sayLast(socket, answerTo(error));
    },

    /** Node would close the connection without a word. */
    connect(_request: IncomingMessage, socket: Duplex): void {
      sayLast(socket, problem("method_not_allowed", "This server is no proxy: it does not take CONNECT."));
    },

    badUrl(path: string, _request: IncomingMessage, response: ServerResponse): void {
      const id = requestId();
      const answer = problem("invalid_lock_name", "The path is not valid percent-encoding.");
      const { status, body } = isNodePath(path) ? inNodeWords(answer) : answer;
      const text = JSON.stringify(withRequestId(body, id));
      const headers = { "content-type": contentType, "content-length": Buffer.byteLength(text) };
      response.writeHead(status, { "x-request-id": id, ...headers }).end(text);
    },
  };
}

/**
 * Whether a reply is on its way, or still to come to a request that arrived whole. Another must not follow the one,
 * nor be taken for the other: its caller would believe that what is being done was refused.
 */
function isBusy(socket: Duplex): boolean {
  const reply = (socket as Duplex & { _httpMessage?: ServerResponse })._httpMessage;
  return reply?.headersSent === true || reply?.req.complete === true;
}

function answerTo(error: NodeJS.ErrnoException): Answer {
  if (error.code === "ERR_HTTP_REQUEST_TIMEOUT")
    return problem("invalid_input", "The request did not arrive in time. Send it again.", { status: 408 });
  if (error.code === "HPE_HEADER_OVERFLOW")
    return problem("too_large", "The request line and headers are larger than the server reads.", {
      status: 431,
    });
  return problem("invalid_input", "This is not a valid HTTP request.", { status: 400 });
}
