/** `holdfast node policy`: how long claims last here, which types there are, and what their statuses mean. */
import { readFileSync } from "node:fs";
import type { ClaimTimes, NodePolicy, TypePolicy } from "../../../client/nodes-replies.js";
import { connect } from "../connect.js";
import { CliError, exitCodes } from "../failure.js";
import { durationText, printLines } from "../output.js";
import type { NodeFlags } from "./node-commands.js";
import { printReply } from "./node-text.js";

export interface PolicyFlags extends NodeFlags {
  readonly set?: string;
}

export async function policyCommand(flags: PolicyFlags): Promise<void> {
  const document = flags.set === undefined ? null : documentIn(flags.set);
  const { client } = await connect(flags);
  let policy = await client.nodes.policy();
  if (document !== null)
    policy = await client.nodes.transport.ask<NodePolicy>({
      method: "PUT",
      path: "/v1/policy",
      // A document that was saved from a look names the revision that it was made from.
      body: { revision: policy.revision, ...document },
      expects: ["types"],
    });
  if (flags.json === true) return printReply(policy);
  printLines(
    document === null ? "Policy" : "Policy set",
    `  Revision: ${policy.revision}${policy.revision === 0 ? " (as the server's configuration says)" : ""}`,
    ...timesOf(policy).map((line) => `  ${line}`),
    ...Object.entries(policy.types).flatMap(([name, type]) => typeLines(name, type)),
  );
}

/** The same words as the wire's and those of the server's own policy file: the server says what is wrong with them. */
function documentIn(file: string): object {
  try {
    const document: unknown = JSON.parse(readFileSync(file, "utf8"));
    if (typeof document === "object" && document !== null && !Array.isArray(document)) return document;
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    throw new CliError(`--set ${file} cannot be read: ${why}`, exitCodes.usage);
  }
  throw new CliError(
    `--set ${file}: it must hold a JSON object, as GET /v1/policy shows it`,
    exitCodes.usage,
  );
}

function timesOf({ claimTtlMs, claimTtlMaxMs, reserveGraceMs, reclaimsMax }: Partial<ClaimTimes>): string[] {
  const line = (name: string, ms: number | undefined): string[] =>
    ms === undefined ? [] : [`${name}: ${durationText(ms)}`];
  return [
    ...line("Claims last", claimTtlMs),
    ...line("Extended up to", claimTtlMaxMs),
    ...line("Reserved for", reserveGraceMs),
    ...(reclaimsMax === undefined ? [] : [`Parked after more losses than: ${reclaimsMax}`]),
  ];
}

function typeLines(name: string, { statuses, ...times }: TypePolicy): string[] {
  const words = Object.entries(statuses).map(([status, phase]) => `${status} (${phase})`);
  return [`  ${name}: ${words.join(", ")}`, ...timesOf(times).map((line) => `    ${line}`)];
}
