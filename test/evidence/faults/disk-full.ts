// The disk is full, and after a while there is room again.
import { call, type Server, temporaryDir } from "../../server.js";
import { smallDisk } from "../../system-small-disk.js";
import { operator } from "../principals.js";
import { isFull, writesWereRefused } from "../proofs.js";
import { again, between, type Fault, firstOf, now, sleep } from "./fault.js";

/**
 * Several times what the server's own log can grow to before it is copied away (16 MiB): with less it takes the last byte
 * itself, and then nothing that the fault takes back makes room.
 */
const diskBytes = 64 * 2 ** 20;

/** What it answers to one more call. */
async function saysSo(server: Server): Promise<boolean> {
  const body = { ttl_seconds: 1 };
  const { status, body: told } = await call(server, "POST", "/locks/evidence-full/acquire", {
    token: operator.bearer,
    body,
  });
  return status === 503 && /\bfull\b/.test(JSON.stringify(told));
}

export const diskFull: Fault = {
  name: "disk-full",
  says: "the disk is full for a while",
  proof: "the file system had no room left, the server said so, and calls were refused as `unavailable`",
  needs: ["unshare", "mount"],
  share: 0.25,
  minimums: { inFlight: 8, unavailable: 30 },
  arrange: () => ({
    options: smallDisk(temporaryDir("holdfast-full-"), diskBytes),
    during: (scene, over) =>
      again(scene, over, async () => {
        const { server } = firstOf(scene);
        const from = now();
        const ballast = scene.disk.fill(server);
        const wasFull = isFull(server);
        await sleep(between(scene, 500, 2000), over);
        // The log says it once, however often it comes again.
        const isNoticed = await saysSo(server);
        const window = { from, to: now() };
        ballast.remove();
        const wereRefused = writesWereRefused(window);
        scene.struck(window, (operations) => wasFull && isNoticed && wereRefused(operations));
      }),
  }),
};
