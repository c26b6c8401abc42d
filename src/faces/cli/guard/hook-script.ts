/**
 * The hooks that `guard install` writes: POSIX sh, because node may be missing when they run. A hook that was there before
 * runs first, for it may change what is committed. The policy is looked up in sh as well: under `off` a commit costs no start
 * of the program, and where the program does not run, the policy decides what that means. Whatever the look cannot tell
 * is left to the program.
 */
import { createHash } from "node:crypto";
import { fileURLToPath } from "node:url";
import { projectFileName } from "../project-file.js";
import { configKey } from "./policy.js";

export const hookNames = ["pre-commit", "pre-push"] as const;
export type HookName = (typeof hookNames)[number];

/** Where a hook goes that was there first. */
export const keptName = (hook: HookName): string => `${hook}.before-holdfast`;

export interface Installation {
  readonly node: string;
  readonly main: string;
}

/** The program that runs now. */
export const thisInstallation = (): Installation => ({
  node: process.execPath,
  main: fileURLToPath(new URL("../../../main.js", import.meta.url)),
});

export interface HookText {
  readonly hook: HookName;
  readonly installation: Installation;
  /** The directory was not there: whoever takes the last hook away takes it away, too. */
  readonly madeDirectory: boolean;
}

const opening =
  "#!/bin/sh\n# Written by: holdfast guard install. Taken away again by: holdfast guard uninstall.\n";
const checksumLine = /^# sha256 of what follows: ([0-9a-f]{64})\n/;
const madeDirectoryLine = "# The directory of this hook was made for it.\n";

export function hookText({ hook, installation, madeDirectory }: HookText): string {
  const body = `${madeDirectory ? madeDirectoryLine : ""}${script(hook, installation)}`;
  return `${opening}# sha256 of what follows: ${sha256(body)}\n${body}`;
}

/** `ours`: as it was written; `changed`: written by us, and edited since; `foreign`: not ours at all. */
export function origin(text: string): {
  readonly is: "ours" | "changed" | "foreign";
  readonly madeDirectory: boolean;
} {
  if (!text.startsWith(opening)) return { is: "foreign", madeDirectory: false };
  const rest = text.slice(opening.length);
  const [line = "", sum] = checksumLine.exec(rest) ?? [];
  const body = rest.slice(line.length);
  return { is: sum === sha256(body) ? "ours" : "changed", madeDirectory: body.startsWith(madeDirectoryLine) };
}

const sha256 = (text: string): string => createHash("sha256").update(text).digest("hex");

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/** Git gives pre-push lines on standard input: all of them to the hook before and to ours, byte by byte. */
const feeding: Readonly<Record<HookName, string>> = {
  "pre-commit": `feed() { "$@"; }\n`,
  "pre-push": `input=$(cat && printf .)\nfeed() { printf %s "\${input%.}" 2>/dev/null | "$@"; }\n`,
};

const checking: Readonly<Record<HookName, string>> = {
  "pre-commit": "guard check --staged",
  "pre-push": 'guard check --pre-push "$@"',
};

function script(hook: HookName, { node, main }: Installation): string {
  return `hook=${hook}
node=${quoted(node)}
main=${quoted(main)}
here=$(dirname "$0")
${feeding[hook]}
# The hook that was here before. A script for sh is run under the name it had: those of hook managers look at it.
before=$here/${keptName(hook)}
if [ -f "$before" ] && [ -x "$before" ]; then
  first=
  IFS= read -r first <"$before" || :
  case $first in
  '#!/bin/sh' | '#!/usr/bin/env sh')
    feed sh -c 'holdfast_before=$1; shift; . "$holdfast_before"' "$here/$hook" "$before" "$@" || exit
    ;;
  *) feed "$before" "$@" || exit ;;
  esac
fi

# One line of TOML, above all tables; "unsure" where it is written in a way that this does not read.
policy_in() {
  [ -f "$1" ] || return 0
  found=$(sed -n -e '/^[[:space:]]*\\[/q' -e 's/^[[:space:]]*lock_policy[[:space:]]*=[[:space:]]*//p' "$1")
  case $found in
  '"off"'* | "'off'"*) echo off ;;
  '"warn"'* | "'warn'"*) echo warn ;;
  '"require"'* | "'require'"*) echo require ;;
  *) if grep -q '^[^#]*lock_policy' "$1"; then echo unsure; fi ;;
  esac
}
policy=$(git config --get ${configKey})
case $?:$policy in
0:off | 0:warn | 0:require) ;;
1:)
  policy=$(policy_in "$(git rev-parse --git-common-dir)/holdfast/config.toml")
  [ -n "$policy" ] || policy=$(policy_in "$(git rev-parse --show-toplevel)/${projectFileName}")
  ;;
*) policy=unsure ;;
esac
case $policy in '' | off) exit 0 ;; esac

# Its result is in its exit code, and on standard error. 126 and 127: it could not be started; under warn it never ends
# with 1 unless it is broken.
check() {
  feed "$@" >/dev/null
  code=$?
  case $policy:$code in *:126 | *:127 | warn:1) return 0 ;; esac
  exit "$code"
}
if [ -x "$node" ] && [ -f "$main" ]; then check "$node" "$main" ${checking[hook]}; fi
if command -v holdfast >/dev/null 2>&1; then check holdfast ${checking[hook]}; fi

if [ "$policy" = warn ]; then
  echo "holdfast: locks were not checked: the program is neither at $main nor on the PATH" >&2
  exit 0
fi
say() { printf '%s\\n' "$1" >&2; }
say "holdfast: this repository has a lock policy, and the program that checks it does not run"
say "  It is neither at $main (with $node) nor on the PATH"
say '  Install it, in a clone of Holdfast: npm ci && npm pack && npm i -g ./holdfast-*.tgz; then: holdfast guard install'
say "  To go on without, this once: git -c ${configKey}=warn ${hook.replace("pre-", "")} ..."
exit 1
`;
}
