// A program that a test starts beside itself: far more requests than a server can answer, over many connections
// with many requests outstanding on each, until standard input ends. Then it prints what came back, as JSON.
import { connect } from "node:net";

export interface Hammered {
  /** Replies by status. */
  readonly statuses: Record<string, number>;
  /** Refusals that do not say when to come back. */
  readonly withoutRetryAfter: number;
  /** Connections that the server cut. */
  readonly cut: number;
}

const [port = "0", connections = "0", depth = "0"] = process.argv.slice(2);
const statuses: Record<string, number> = {};
let withoutRetryAfter = 0;
let cut = 0;
let next = 0;
let isOver = false;

const head = "Host: 127.0.0.1\r\nAuthorization: Bearer secret-b\r\n";

/** Four acquires of fresh names for each list. */
function request(): string {
  const n = next++;
  if (n % 5 === 4) return `GET /locks?prefix=hammer-&limit=100 HTTP/1.1\r\n${head}\r\n`;
  const body = '{"ttl_seconds":30}';
  return `POST /locks/hammer-${n}/acquire HTTP/1.1\r\n${head}Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
}

const replyHead = /HTTP\/1\.1 (\d{3}) [\s\S]*?\r\n\r\n/g;

function open(): void {
  const socket = connect(Number(port), "127.0.0.1", () => {
    socket.write(Array.from({ length: Number(depth) }, request).join(""));
  });
  let rest = "";
  socket.setEncoding("latin1").on("data", (text: string) => {
    const whole = rest + text;
    let [replies, end] = [0, 0];
    for (const match of whole.matchAll(replyHead)) {
      const status = match[1] ?? "";
      statuses[status] = (statuses[status] ?? 0) + 1;
      if (status === "503" && !/\r\nretry-after: \d/i.test(match[0])) withoutRetryAfter++;
      replies++;
      end = match.index + match[0].length;
    }
    // A head may be cut in two; what stands before its last possible beginning was counted or is body.
    rest = whole.slice(Math.max(end, whole.lastIndexOf("HTTP/1.1 "), whole.length - 8));
    if (replies > 0 && !isOver) socket.write(Array.from({ length: replies }, request).join(""));
  });
  socket.on("error", () => undefined);
  socket.on("close", () => {
    if (isOver) return;
    cut++;
    setTimeout(open, 50);
  });
}

for (let i = 0; i < Number(connections); i++) open();
process.stdin.resume().once("end", () => {
  isOver = true;
  const hammered: Hammered = { statuses, withoutRetryAfter, cut };
  process.stdout.write(`${JSON.stringify(hammered)}\n`, () => process.exit(0));
});
