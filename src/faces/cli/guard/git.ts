/**
 * Running git: arguments as a list, never through a shell, and in the directory and environment that this process was
 * given. A hook gets GIT_DIR and GIT_INDEX_FILE from git, perhaps relative to that directory, and they say what is meant.
 */
import { spawn } from "node:child_process";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { CliError, exitCodes } from "../failure.js";

/** Messages in one language, and no lock taken to refresh what is only read. */
const environment = (): NodeJS.ProcessEnv => ({ ...process.env, LC_ALL: "C", GIT_OPTIONAL_LOCKS: "0" });

/** Of what git says when it fails: enough for a sentence, in characters. */
const complaintMax = 500;

interface Running {
  /** Standard output, piece by piece. */
  readonly output: AsyncIterable<Buffer>;
  /** After the output was read. */
  readonly ended: Promise<{ readonly code: number | null; readonly complaint: string }>;
}

function start(args: readonly string[], input: AsyncIterable<string> | readonly string[]): Running {
  const child = spawn("git", args, { env: environment(), stdio: ["pipe", "pipe", "pipe"] });
  let complaint = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    complaint = (complaint + text).slice(0, complaintMax);
  });
  const closed = new Promise<number | null>((resolve, reject) => {
    child.once("error", (error: NodeJS.ErrnoException) =>
      reject(
        error.code === "ENOENT"
          ? new CliError("there is no git on the PATH: install it", exitCodes.other, { code: "no_git" })
          : error,
      ),
    );
    child.once("close", resolve);
  });
  // What cannot be written to it, because it has ended, is told by its exit code; what `input` throws is not.
  const fed = pipeline(Readable.from(input), child.stdin).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EPIPE" && error.code !== "ERR_STREAM_PREMATURE_CLOSE") throw error;
  });
  const ended = Promise.all([closed, fed]).then(([code]) => ({ code, complaint: complaint.trim() }));
  // Whoever reads the output first may never come to wait for this.
  ended.catch(() => {});
  return { output: child.stdout, ended };
}

export interface GitResult {
  readonly code: number | null;
  /** Without the line break at its end. */
  readonly text: string;
  readonly complaint: string;
}

/** Runs to the end; what the exit code means is the caller's to know. */
export async function tryGit(args: readonly string[], input: readonly string[] = []): Promise<GitResult> {
  const { output, ended } = start(args, input);
  const pieces: Buffer[] = [];
  for await (const piece of output) pieces.push(piece);
  const { code, complaint } = await ended;
  return { code, text: Buffer.concat(pieces).toString("utf8").replace(/\n$/, ""), complaint };
}

/** Its standard output; any failure of it is ours. */
export async function git(args: readonly string[], input: readonly string[] = []): Promise<string> {
  const { code, text, complaint } = await tryGit(args, input);
  if (code !== 0) throw gitFailed(args, complaint);
  return text;
}

/** What it prints, record by record, as bytes: a name need be no text. However much it is, it is never held at once. */
export async function* gitRecords(
  args: readonly string[],
  end: "\0" | "\n",
  input: AsyncIterable<string> | readonly string[] = [],
): AsyncGenerator<Buffer, void, undefined> {
  const { output, ended } = start(args, input);
  const mark = end.charCodeAt(0);
  let rest: Buffer = Buffer.alloc(0);
  for await (const piece of output) {
    let text: Buffer = rest.length === 0 ? piece : Buffer.concat([rest, piece]);
    for (let at = text.indexOf(mark); at !== -1; at = text.indexOf(mark)) {
      yield text.subarray(0, at);
      text = text.subarray(at + 1);
    }
    rest = text;
  }
  if (rest.length > 0) yield rest;
  const { code, complaint } = await ended;
  if (code !== 0) throw gitFailed(args, complaint);
}

const gitFailed = (args: readonly string[], complaint: string): CliError =>
  new CliError(
    `git ${args[0]} failed: ${complaint === "" ? "it does not say why" : complaint}`,
    exitCodes.storage,
    {
      code: "git_failed",
    },
  );
