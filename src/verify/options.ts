/** What a run can be asked for. Whatever cannot work is refused before the service hears of it. */
import { VerifyError } from "./error.js";
import type { Load } from "./http/pace.js";
import type { Workload } from "./lab.js";
import { workloads as everyWorkload } from "./workloads/all.js";

export interface VerifyOptions {
  /** `http://` or `https://`, without user and password. Any host: only the command asks before it leaves this machine. */
  readonly url: string;
  /** At least one, all of one space; each is a principal of its own. */
  readonly bearers: readonly string[];
  /** What messages call each of them; `the first token` and so on where nothing is given. */
  readonly bearerNames?: readonly string[];
  /** From `durationMinMs` to `durationMaxMs`. */
  readonly durationMs: number;
  /** All that may run there, where nothing is given; one that is given twice runs once. */
  readonly workloads?: readonly Workload[];
  readonly seed?: number;
  readonly load?: Load;
  /** Goes on until the time is up though a violation was found. */
  readonly keepGoing?: boolean;
  /** Aborted to end the run early; it still cleans up and judges what it has. */
  readonly signal?: AbortSignal;
  /** Called when everything has been looked at that could keep the run from beginning, with what will run. */
  readonly onBegin?: (workloads: readonly Workload[]) => void;
  readonly onProgress?: (progress: Progress) => void;
}

export interface Progress {
  readonly doing: "running" | "letting go" | "checking";
  readonly ranMs: number;
  readonly durationMs: number;
  readonly operations: number;
  /** Replies lost so far, by the workloads' own doing or not. */
  readonly lost: number;
}

/** In less, a lease of three seconds can hardly run out and be taken over, and a run shows nothing. */
export const durationMinMs = 5000;
/** The history of a run is kept in memory: a day is far above what it takes to show anything. */
export const durationMaxMs = 86_400_000;

/** Options that can work, with nothing left open. */
export interface Checked extends VerifyOptions {
  readonly workloads: readonly Workload[];
  /** Somebody named them. */
  readonly areChosen: boolean;
}

export function checked(options: VerifyOptions): Checked {
  const { url, bearers, durationMs, workloads = everyWorkload } = options;
  checkUrl(url);
  if (bearers.length === 0 || bearers.some((bearer) => !isBearer(bearer)))
    throw new VerifyError(
      "a run needs at least one bearer token, and none that is empty or has characters that no header takes",
      "usage",
    );
  // Also false for what is no number.
  if (!(durationMs >= durationMinMs && durationMs <= durationMaxMs))
    throw new VerifyError(`a run takes from ${durationMinMs} ms to ${durationMaxMs} ms (24 h)`, "usage");
  if (workloads.length === 0) throw new VerifyError("a run needs at least one workload", "usage");
  // Two at once under the same names would each be judged without the other's calls.
  const byName = new Map(workloads.map((workload) => [workload.name, workload]));
  return { ...options, workloads: [...byName.values()], areChosen: options.workloads !== undefined };
}

/** A header takes no other characters. */
const isBearer = (text: string): boolean => /^[\x21-\x7e]+$/.test(text);

/** Never repeats a URL that may hold a password. */
export function checkUrl(url: string): void {
  if (/\/\/[^/?#]*@/.test(url))
    throw new VerifyError(
      "the URL has a user or a password in it: leave them out, a bearer token is all that counts",
      "usage",
    );
  if (!URL.canParse(url) || !/^https?:\/\//i.test(url))
    throw new VerifyError(`${url} is no URL of a server: use one as http://127.0.0.1:4280`, "usage");
}
