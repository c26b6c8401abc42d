/**
 * `holdfast guard check`: whether the paths of a commit, a push or a range may be changed, by the repository's lock policy.
 * Under `require` whatever cannot be told is refused; under `warn` nothing is.
 */
import { text } from "node:stream/consumers";
import { codeOf, exitCodeOf, messageOf } from "../explain.js";
import { CliError, exitCodes } from "../failure.js";
import { printJson, printLines, warn } from "../output.js";
import type { ServerFlags } from "../settings.js";
import { judge } from "./judgement.js";
import { type Reading, readLocks } from "./locks.js";
import { configKey, type LockPolicy, policyOf } from "./policy.js";
import { addRange } from "./range.js";
import { findingLines, type Report, refusedPaths, reportFields } from "./report.js";
import { type Repository, repositoryHere } from "./repository.js";
import { addNamed, addStaged, Touched } from "./touched.js";
import { addUpdates, receiverOf, thisRepository, updatesIn } from "./updates.js";

export interface CheckFlags extends ServerFlags {
  readonly json?: boolean;
  readonly staged?: boolean;
  readonly range?: string;
  /** The remote, and its address. */
  readonly prePush?: readonly string[];
  readonly preReceive?: boolean;
  readonly policy?: string;
  /** Whose locks are one's own. */
  readonly as?: string;
}

type Mode = "staged" | "range" | "pre-push" | "pre-receive" | "paths";

export async function checkCommand(paths: readonly string[], flags: CheckFlags): Promise<void> {
  const mode = modeOf(paths, flags);
  const repository = await repositoryHere();
  const policy = await policyOf(repository, flags.policy);
  if (policy.word === "off") {
    warn(...policy.warnings.map((line) => `holdfast: ${line}`));
    return tell(flags, { policy, touched: 0, isChecked: false, findings: nothing, notes: [], flags });
  }
  const touched = await touchedBy(mode, paths, flags, repository);
  const base = { policy, touched: touched.size, isChecked: true, notes: touched.notes, flags };
  if (touched.size === 0) return tell(flags, { ...base, findings: nothing });
  const reading = await readOrExplain(policy, flags, mode);
  if (!("locks" in reading)) {
    const notes = [...touched.notes, reading.unread];
    return tell(flags, { ...base, isChecked: false, findings: nothing, notes });
  }
  const { locks, me } = reading;
  const { paths: named, noText } = touched;
  const findings = judge({ paths: named, noText, locks, me: flags.as ?? me, demands: policy.demands });
  const notes = [...touched.notes, ...doubtsIn(reading).map(({ message }) => message)];
  const report = { ...base, notes, findings };
  if (policy.word === "require" && refusedPaths(findings) > 0) throw refusal(report, mode);
  tell(flags, report);
}

const nothing = { held: [], required: [], unlockable: [] };

function modeOf(paths: readonly string[], flags: CheckFlags): Mode {
  const given: Mode[] = [
    ...(flags.staged === true ? (["staged"] as const) : []),
    ...(flags.range === undefined ? [] : (["range"] as const)),
    ...(flags.prePush === undefined ? [] : (["pre-push"] as const)),
    ...(flags.preReceive === true ? (["pre-receive"] as const) : []),
    ...(paths.length === 0 ? [] : (["paths"] as const)),
  ];
  if (given.length > 1 || (flags.prePush?.length ?? 0) > 2)
    throw new CliError(
      "guard check looks at one thing: --staged, --range A..B, --pre-push REMOTE URL, --pre-receive, or paths",
      exitCodes.usage,
    );
  return given[0] ?? "staged";
}

async function touchedBy(
  mode: Mode,
  paths: readonly string[],
  flags: CheckFlags,
  { root }: Repository,
): Promise<Touched> {
  const touched = new Touched();
  if (mode === "range") await addRange(touched, flags.range ?? "");
  else if (mode === "pre-push" || mode === "pre-receive") {
    const updates = updatesIn(await hookInput(mode), mode);
    const receiver = mode === "pre-push" ? await receiverOf(flags.prePush?.[0] ?? "") : thisRepository;
    await addUpdates(touched, updates, receiver);
  } else if (root === null)
    throw new CliError(
      "a bare repository has no files and no commits in the making: use --pre-receive in its hook, or --range A..B",
      exitCodes.usage,
      { code: "bare_repository" },
    );
  else if (mode === "staged") await addStaged(touched);
  else await addNamed(touched, paths, root);
  return touched;
}

async function hookInput(mode: Mode): Promise<string> {
  if (process.stdin.isTTY)
    throw new CliError(
      `--${mode} reads the lines that git gives its hook on standard input; holdfast guard install makes that hook`,
      exitCodes.usage,
    );
  return text(process.stdin);
}

/** Under `warn`, why they could not be read. */
async function readOrExplain(
  policy: LockPolicy,
  flags: CheckFlags,
  mode: Mode,
): Promise<Reading | { readonly unread: string }> {
  try {
    const reading = await readLocks(flags);
    const [doubt] = doubtsIn(reading);
    if (doubt === undefined || policy.word === "warn") return reading;
    throw doubt;
  } catch (error) {
    const why = messageOf(error);
    if (policy.word === "warn") return { unread: `the locks could not be read, and were not heeded: ${why}` };
    const what = `the locks cannot be read, and lock_policy is require (${policy.from})`;
    throw new CliError(`${what}: ${why}`, exitCodeOf(error), {
      code: codeOf(error),
      lines: [`holdfast: ${what}`, why, `Repeat it once that is mended. ${wayOn(mode)}`],
    });
  }
}

/** Why what was read may not be all there is. */
const doubtsIn = ({ unseen, unreadable }: Reading): CliError[] => [
  ...(unseen === null ? [] : [new CliError(unseenText(unseen), exitCodes.other, { code: "forbidden" })]),
  ...(unreadable === null
    ? []
    : [
        new CliError(
          `${unreadable}. It may be the lock of one of these paths: holdfast doctor says what to do`,
          exitCodes.storage,
          { code: "unavailable" },
        ),
      ]),
];

const unseenText = (names: string): string =>
  `the token may not see ${names}: use one whose scopes cover them (an observer's is enough)`;

const wayOn = (mode: Mode): string =>
  mode === "staged"
    ? `To go on without, this once: git -c ${configKey}=warn commit …`
    : mode === "pre-push"
      ? `To go on without, this once: git -c ${configKey}=warn push …`
      : "To only be warned: --policy warn";

const doings: Readonly<Record<Mode, string>> = {
  staged: "committed",
  "pre-push": "pushed",
  "pre-receive": "pushed",
  range: "changed",
  paths: "changed",
};

function refusal(report: Report, mode: Mode): CliError {
  const { policy, touched, findings, notes } = report;
  const count = refusedPaths(findings);
  const what = `${count} of ${touched} ${touched === 1 ? "path" : "paths"} must not be ${doings[mode]}: lock_policy is require (${policy.from})`;
  return new CliError(what, exitCodes.conflict, {
    code: findings.held.length > 0 ? "held" : "lock_required",
    details: reportFields(report),
    lines: [`holdfast: ${what}`, ...findingLines(report), ...notes],
  });
}

/** Nothing is refused: what there is to know is on standard error, and the result on standard output. */
function tell(flags: CheckFlags, report: Report): void {
  const { policy, touched, isChecked, notes } = report;
  const lines = findingLines(report);
  if (lines.length > 0)
    warn(
      `holdfast: lock_policy is ${policy.word} (${policy.from}): going on, though`,
      ...lines.map((line) => `  ${line}`),
    );
  warn(...notes.map((note) => `holdfast: ${note}`));
  if (flags.json === true) printJson(reportFields(report));
  else if (policy.word === "off")
    printLines(
      `Nothing was checked: lock_policy is off (${policy.from})`,
      ...(policy.from === "default" ? [`  To turn it on: git config ${configKey} warn`] : []),
    );
  else {
    const isClear = lines.length === 0 && notes.length === 0;
    const found = !isChecked ? "Not checked" : isClear ? "Nothing in the way" : "Checked";
    printLines(`${found}: ${touched} ${touched === 1 ? "path" : "paths"}, lock_policy is ${policy.word}`);
  }
}
