// A wall clock that a test can step for one server alone, its monotonic clock left as it is: Debian's libfaketime.
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { temporaryDir } from "./server.js";

export interface WallClock {
  /** What the server must be started with. */
  readonly env: Record<string, string>;
  /** Sets it, relative to the real one. The library notices after a moment. */
  step(ms: number): void;
}

export function wallClock(): WallClock {
  const stepFile = join(temporaryDir("holdfast-clock-"), "step");
  const step = (ms: number): void => writeFileSync(stepFile, `${ms < 0 ? "-" : "+"}${Math.abs(ms) / 1000}\n`);
  step(0);
  return {
    env: {
      LD_PRELOAD: faketimeLibrary(),
      FAKETIME_DONT_FAKE_MONOTONIC: "1",
      FAKETIME_TIMESTAMP_FILE: stepFile,
      FAKETIME_NO_CACHE: "1",
    },
    step,
  };
}

function faketimeLibrary(): string {
  for (const dir of readdirSync("/usr/lib"))
    try {
      const found = readdirSync(join("/usr/lib", dir, "faketime")).find(
        (name) => name === "libfaketime.so.1",
      );
      if (found !== undefined) return join("/usr/lib", dir, "faketime", found);
    } catch {
      // not in this one
    }
  throw new Error("libfaketime.so.1 is not under /usr/lib: apt-get install faketime");
}
