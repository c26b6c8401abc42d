// The database's wall clock is stepped to and fro: nobody goes by it.
import { until } from "../../system-client.js";
import { seen, showsWithinMs } from "../proofs.js";
import { again, between, databaseOf, type Fault, now } from "./fault.js";

const leastMs = 10_000;
const mostMs = 3_600_000;
/** What tells a step from the time that a question takes. */
const toleranceMs = 2000;

export const databaseClock: Fault = {
  name: "database-clock",
  says: "the database's wall clock steps by up to an hour, either way",
  proof: "the database tells the stepped time",
  needs: ["faketime"],
  share: 0.5,
  minimums: { inFlight: 12 },
  arrange: () => ({
    during: async (scene, over) => {
      const { clock } = databaseOf(scene);
      if (clock === undefined) throw new Error("the database has no clock that can be stepped");
      await again(scene, over, async () => {
        const stepMs = Math.round(between(scene, leastMs, mostMs)) * (scene.random() < 0.5 ? -1 : 1);
        const shows = async (): Promise<true | undefined> =>
          Math.abs((await clock.now()) - Date.now() - stepMs) < toleranceMs ? true : undefined;
        const from = now();
        clock.wall.step(stepMs);
        const isSeen = await until(shows, "the database sees it", showsWithinMs).catch(() => false);
        scene.struck({ from, to: now() }, seen(isSeen));
      });
      clock.wall.step(0);
    },
  }),
};
