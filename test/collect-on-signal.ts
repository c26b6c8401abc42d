// Loaded before the program where a test wants to see its memory without garbage: at SIGUSR2 all of it is collected, and a
// file says that this is done. A heap snapshot would do it, too, but takes 100 MB and more itself, which stay.
import { writeFileSync } from "node:fs";
import { isMainThread } from "node:worker_threads";

/** Written into the working directory. */
export const collectedFile = "garbage-collected";

if (isMainThread && globalThis.gc !== undefined)
  process.on("SIGUSR2", () => {
    globalThis.gc?.();
    writeFileSync(collectedFile, "");
  });
