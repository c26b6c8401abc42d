/**
 * The address and the token that a command is about to use: what cannot be one is refused, naming where it came from,
 * and where no token was found, every command says the same.
 */
import { CliError, exitCodes } from "./failure.js";
import type { Setting } from "./settings.js";

export const urlDefault = "http://127.0.0.1:4280";

/** Before the token is looked for: a wrong address has none, which would be told as the trouble. */
export function refuseBadAddress({ value, from }: Setting): void {
  if (!/^https?:\/\//i.test(value) || !URL.canParse(value))
    throw new CliError(
      `${from}: ${value} is no URL of a server: write one as ${urlDefault}`,
      exitCodes.usage,
    );
}

export function refuseBadToken({ value, from }: Setting): void {
  if (!/^[!-~]+$/.test(value))
    throw new CliError(
      `${from}: the token holds a character that no token has, as a space, a line break or a curly quote: copy it anew`,
      exitCodes.usage,
    );
}

/** With what was found and not used: the usual reason is a variable that is left of another server. */
export function noToken(url: Setting, unused: readonly string[]): CliError {
  const what = `no token for ${url.value} (from ${url.from})${unused.map((reason) => `; ${reason}`).join("")}`;
  const advice = tokenAdvice(url);
  return new CliError([what, ...advice].join(". "), exitCodes.other, {
    code: "authentication_required",
    lines: [`holdfast: ${what}`, ...advice],
  });
}

/** What to do about it, in the order of how likely it helps. */
export const tokenAdvice = ({ from }: Setting): string[] => [
  "Set HOLDFAST_TOKEN to the token that you were given, or give --token-file FILE",
  "A server on this machine keeps its operator's token in its data directory, in operator-token: with --data DIR commands find both, and holdfast token create --name ME --data DIR makes a token to work with",
  ...(from === "default"
    ? ["No server yet: holdfast serve starts one, and commands in the same directory find it and its token"]
    : []),
];
