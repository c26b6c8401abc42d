// The server's wall clock is stepped to and fro, by up to an hour, while it runs.
import { Client, until } from "../../system-client.js";
import { wallClock } from "../../system-wall-clock.js";
import { operator } from "../engines.js";
import { again, between, type Fault, now } from "./fault.js";

const hourMs = 3_600_000;
/** What tells a step from the time that a request takes. */
const toleranceMs = 2000;

export const clock: Fault = {
  name: "clock",
  says: "the wall clock steps by up to an hour, either way",
  needs: ["faketime"],
  share: 0.6,
  minimums: { inFlight: 15 },
  arrange: () => {
    const wall = wallClock();
    return {
      options: { env: wall.env },
      during: async (scene, over) => {
        const client = new Client(scene.server.url, operator.bearer);
        const lease = await client.acquire("clock-probe", { ttl_seconds: 3600 });
        /** Whether the server's replies show the stepped clock. */
        const shows = async (stepMs: number): Promise<true | undefined> => {
          const { expires_at, expires_in_ms } = (await client.look("clock-probe")).body;
          const behindMs = Date.parse(expires_at) - expires_in_ms - Date.now() - stepMs;
          return Math.abs(behindMs) < toleranceMs ? true : undefined;
        };
        await again(scene, over, async () => {
          const stepMs = Math.round(between(scene, -hourMs, hourMs));
          const from = now();
          wall.step(stepMs);
          await until(() => shows(stepMs), "the server sees the stepped clock");
          scene.struck(from, now());
        });
        await client.release("clock-probe", lease.body.lease_id);
        client.close();
      },
    };
  },
};
