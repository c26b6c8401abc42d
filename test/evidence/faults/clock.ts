// A server's wall clock is stepped to and fro, by as much as its engine allows, while it runs.
import { Client, until } from "../../system-client.js";
import { wallClock } from "../../system-wall-clock.js";
import { operator } from "../principals.js";
import { seen, showsWithinMs } from "../proofs.js";
import { again, between, type Fault, firstOf, now } from "./fault.js";

const leastMs = 10_000;
/** What tells a step from the time that a request takes. */
const toleranceMs = 2000;

export const clock: Fault = {
  name: "clock",
  says: "the wall clock steps by up to an hour, or as far as the engine allows, either way",
  proof: "the server's replies show the stepped clock",
  needs: ["faketime"],
  share: 0.6,
  minimums: { inFlight: 15 },
  arrange: () => {
    const wall = wallClock();
    return {
      options: { env: wall.env },
      during: async (scene, over) => {
        const client = new Client(firstOf(scene).server.url, operator.bearer);
        const mostMs = scene.engine.wallClockMaxMs;
        const lease = await client.acquire("clock-probe", { ttl_seconds: 3600 });
        /** Whether the server's replies show the stepped clock. */
        const shows = async (stepMs: number): Promise<true | undefined> => {
          const { expires_at, expires_in_ms } = (await client.look("clock-probe")).body;
          const behindMs = Date.parse(expires_at) - expires_in_ms - Date.now() - stepMs;
          return Math.abs(behindMs) < toleranceMs ? true : undefined;
        };
        await again(scene, over, async () => {
          const stepMs = Math.round(between(scene, leastMs, mostMs)) * (scene.random() < 0.5 ? -1 : 1);
          const from = now();
          wall.step(stepMs);
          const isSeen = await until(() => shows(stepMs), "the server sees it", showsWithinMs).catch(
            () => false,
          );
          scene.struck({ from, to: now() }, seen(isSeen));
        });
        await client.release("clock-probe", lease.body.lease_id);
        client.close();
      },
    };
  },
};
