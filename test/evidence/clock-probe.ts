// The clock that servers share, looked at beside a cell of the matrix: over one lease, at one server after the other.
import { ClockProbe } from "../../src/verify/http/clock-probe.js";
import { call } from "../server.js";
import type { Engine } from "./engines.js";
import type { Node } from "./faults/fault.js";
import { operator } from "./principals.js";

interface Answer {
  readonly expires_in_ms?: number;
}

const name = "evidence-clock";
/** Beyond any cell. */
const ttlSeconds = 3600;
const timeoutMs = 1000;

/** Null where a server has a clock of its own. */
export async function probeOf(
  { databaseOf }: Engine,
  nodes: readonly Pick<Node, "server">[],
): Promise<ClockProbe | null> {
  const [first] = nodes;
  if (databaseOf === undefined || first === undefined) return null;
  const token = operator.bearer;
  const body = { ttl_seconds: ttlSeconds };
  const { status } = await call(first.server, "POST", `/locks/${name}/acquire`, { token, body });
  if (status !== 200) throw new Error(`the clock cannot be looked at: ${status}`);
  let nth = 0;
  return new ClockProbe(async () => {
    const { server } = nodes[nth++ % nodes.length] ?? first;
    const signal = AbortSignal.timeout(timeoutMs);
    return call<Answer>(server, "GET", `/locks/${name}`, { token, signal }).then(
      (reply) => reply.body.expires_in_ms,
      () => undefined, // it is down, or cut off
    );
  });
}
