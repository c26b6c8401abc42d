/**
 * Requests that never become one: what Node's parser or the router cannot read gets the error body and a request
 * id like any other.
 */
import { type IncomingMessage, type ServerResponse, STATUS_CODES } from "node:http";
import type { Socket } from "node:net";
import { type Answer, problem } from "./answer.js";

const contentType = "application/json; charset=utf-8";

/** `requestId` makes the id that the reply carries. */
export function answerUnreadable(requestId: () => string) {
  return {
    /** Broken framing, headers that are too large or too slow. The connection cannot go on after it. */
    clientError(error: NodeJS.ErrnoException, socket: Socket): void {
      // A reply that is on its way already must not be followed by another.
      const isAnswered = (socket as Socket & { _httpMessage?: ServerResponse })._httpMessage?.headersSent;
      if (error.code === "ECONNRESET" || !socket.writable || isAnswered) {
        socket.destroy(error);
        return;
      }
      const id = requestId();
      const { status, body } = answerTo(error);
      const text = JSON.stringify({ ...(body as object), request_id: id });
      socket.end(
        `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nX-Request-Id: ${id}\r\nContent-Type: ${contentType}\r\n` +
          `Content-Length: ${Buffer.byteLength(text)}\r\nConnection: close\r\n\r\n${text}`,
        () => socket.destroy(),
      );
    },

    badUrl(_path: string, _request: IncomingMessage, response: ServerResponse): void {
      const id = requestId();
      const { status, body } = problem("invalid_lock_name", "The path is not valid percent-encoding.");
      response.writeHead(status, { "x-request-id": id, "content-type": contentType });
      response.end(JSON.stringify({ ...(body as object), request_id: id }));
    },
  };
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
