/** The report for people: one HTML file that needs nothing else. The verdict on top, then what is wrong, then the rest. */
import type { Violation } from "../check.js";
import { lossRates, type Result, unknownReplies, type WorkloadResult } from "../result.js";
import { type Html, html, page } from "./page.js";
import { situations } from "./situations.js";
import { timeline } from "./timeline.js";
import {
  callText,
  complaints,
  endText,
  grouped,
  msText,
  operationCount,
  outcomeText,
  plural,
  rateText,
  remarks,
  replyText,
  secondsText,
  seenText,
  situationText,
  spanText,
} from "./words.js";

/** More is in the JSON report. */
const violationsMax = 50;
const operationsMax = 20;

export const resultToHtml = (result: Result): string =>
  page(
    `Holdfast verify: ${outcomeText(result.outcome)}`,
    html`${verdict(result)}${violations(result)}${doubts(result)}${table(result)}${reached(result)}${losses(result)}${timelines(result)}${latencies(result)}${footer(result)}`,
  );

function verdict(result: Result): Html {
  const { outcome, workloads } = result;
  const kind = outcome === "ok" ? "ok" : outcome === "violated" ? "violated" : "unsure";
  const count = workloads.reduce((total, one) => total + one.verdict.violations.length, 0);
  const names = workloads.reduce((total, one) => total + one.verdict.names, 0);
  const title = outcome === "violated" ? plural(count, "violation") : outcomeText(outcome);
  return html`<header><h1>Holdfast verify</h1>
<div class="verdict ${kind}"><strong>${title}</strong>
in ${plural(operationCount(result), "operation")} on ${plural(names, "name")}, ${plural(workloads.length, "workload")} over ${Math.round(result.durationMs / 1000)} s${endText(result) && ` (${endText(result)})`}</div>
<dl class="facts"><dt>Service</dt><dd>${result.url}</dd><dt>Began</dt><dd>${result.startedAt}</dd>
<dt>Principals</dt><dd>${result.principals.join(", ")}</dd><dt>Names</dt><dd><code>${result.prefix}…</code></dd>
<dt>Seed</dt><dd>${result.seed}</dd></dl></header>`;
}

function violations({ workloads }: Result): Html {
  const all = workloads.flatMap((workload) =>
    workload.verdict.violations.map((violation) => ({ workload, violation })),
  );
  if (all.length === 0) return html``;
  const more = all.length - violationsMax;
  return html`<section><h2>Violations</h2>
${all.slice(0, violationsMax).map(({ workload, violation }) => article(workload, violation))}
${more > 0 ? html`<p class="soft">${grouped(more)} more are left out. A report in JSON has them.</p>` : html``}</section>`;
}

function article(workload: WorkloadResult, { invariant, name, says, operations }: Violation): Html {
  const shown = operations.slice(0, operationsMax);
  const more = operations.length - shown.length;
  const { history } = workload;
  const rows = shown.flatMap((nth) => {
    if (invariant === "I29") {
      const seen = history.seen[nth];
      return seen === undefined
        ? []
        : [
            html`<tr><td class="n">${nth}</td><td>${secondsText(seen.at)}</td><td>${seen.stream}</td><td><code>${seenText(seen)}</code></td><td><code>${seen.id ?? ""}</code></td></tr>`,
          ];
    }
    const operation = history.operations[nth];
    return operation === undefined
      ? []
      : [
          html`<tr><td class="n">${nth}</td><td>${spanText(operation)}</td><td>${operation.process}</td><td><code>${callText(operation.call)}</code></td><td><code>${replyText(operation.reply)}</code></td></tr>`,
        ];
  });
  const head =
    invariant === "I29" ? ["at", "stream", "event", "id"] : ["from – to", "process", "asked", "answered"];
  return html`<article><h3>${invariant} · ${workload.workload} · <code>${name}</code></h3><p>${says}</p>
${
  rows.length === 0
    ? html``
    : html`<div class="wide"><table><thead><tr><th>#</th>${head.map((text) => html`<th>${text}</th>`)}</tr></thead><tbody>${rows}</tbody></table></div>`
}
${more > 0 ? html`<p class="soft">and ${grouped(more)} more</p>` : html``}</article>`;
}

/** What is wrong beside violations. */
function doubts(result: Result): Html {
  const violated = result.workloads.reduce((total, one) => total + one.verdict.violations.length, 0);
  const rest = [...complaints(result).slice(violated), ...remarks(result)];
  if (rest.length === 0) return html``;
  const more = rest.length - violationsMax;
  return html`<section><h2>${result.outcome === "ok" ? "Remarks" : "Not shown"}</h2><ul>${rest.slice(0, violationsMax).map((text) => html`<li>${text}</li>`)}</ul>
${more > 0 ? html`<p class="soft">and ${grouped(more)} more</p>` : html``}</section>`;
}

function table({ workloads }: Result): Html {
  const cell = (value: number, kind: string): Html =>
    html`<td class="n ${value > 0 ? kind : ""}">${grouped(value)}</td>`;
  return html`<section><h2>Workloads</h2><div class="wide"><table><thead><tr><th>workload</th><th class="n">names</th>
<th class="n">operations</th><th class="n">lost replies</th><th class="n">violations</th><th class="n">undecided</th></tr></thead><tbody>
${workloads.map(
  (
    one,
  ) => html`<tr><td>${one.workload}<br><small>${one.says}</small></td><td class="n">${grouped(one.verdict.names)}</td>
<td class="n">${grouped(one.history.operations.length)}</td><td class="n">${grouped(unknownReplies(one))}</td>
${cell(one.verdict.violations.length, "bad")}${cell(one.verdict.unknown.length, "warn")}</tr>`,
)}
</tbody></table></div></section>`;
}

function reached({ workloads }: Result): Html {
  const counts = ({ tally, needed, tooLittle }: WorkloadResult): Html[] =>
    Object.entries(tally).map(([situation, times]) => {
      const least = needed[situation];
      const kind = tooLittle.some((one) => one.situation === situation) ? "warn" : "";
      const of = least === undefined ? "" : ` of ${grouped(least)} needed`;
      return html`<li class="${kind}" title="${situations[situation] ?? ""}">${situationText(situation)} <b>${grouped(times)}</b>${of}</li>`;
    });
  return html`<section><h2>Situations reached</h2><p class="soft">How often each workload got into what it is there to try, and how often it had to in a run of this length. A run that reaches too little shows nothing.</p>
<table><tbody>${workloads.map((one) => html`<tr><td>${one.workload}</td><td><ul class="counts">${counts(one)}</ul></td></tr>`)}</tbody></table>
${legend(workloads)}</section>`;
}

/** What the counts are: those that are there. */
function legend(workloads: readonly WorkloadResult[]): Html {
  const there = new Set(workloads.flatMap(({ tally }) => Object.keys(tally)));
  const known = Object.entries(situations).filter(([situation]) => there.has(situation));
  if (known.length === 0) return html``;
  return html`<details><summary>What these are</summary><dl class="facts">
${known.map(([situation, says]) => html`<dt>${situationText(situation)}</dt><dd>${says}</dd>`)}</dl></details>`;
}

function losses({ workloads }: Result): Html {
  const rates = workloads.flatMap(({ tally }) => lossRates(tally) ?? []);
  if (rates.length === 0) return html``;
  return html`<section><h2>Lost updates</h2><table><tbody>
${rates.map(
  ({ fenced, unfenced }) => html`<tr><td>without fencing</td><td>${rateText(unfenced)}</td></tr>
<tr><td>with fencing</td><td>${rateText(fenced)}</td></tr>`,
)}
</tbody></table><p class="soft">Holders were paused past their TTL on purpose and wrote all the same. A lease cannot stop such a write; what it guards can, by refusing a lower token.</p></section>`;
}

function timelines({ workloads }: Result): Html {
  const firstViolated = workloads.find(({ verdict }) => verdict.violations.length > 0) ?? workloads[0];
  return html`<section><h2>Who held what</h2>
${workloads.map(
  (
    one,
  ) => html`<details ${one === firstViolated ? html`open` : html``}><summary>${one.workload} <span>${one.says}</span></summary>
${timeline(one)}</details>`,
)}</section>`;
}

function latencies({ workloads }: Result): Html {
  const rows = workloads.flatMap(({ workload, latency }) =>
    latency.map(
      (
        { op, count, p50Ms, p90Ms, p99Ms, maxMs },
        nth,
      ) => html`<tr><td>${nth === 0 ? workload : ""}</td><td>${op}</td><td class="n">${grouped(count)}</td>
${[p50Ms, p90Ms, p99Ms, maxMs].map((ms) => html`<td class="n">${msText(ms)}</td>`)}</tr>`,
    ),
  );
  return html`<section><h2>Time of a call</h2><details><summary>${rows.length} kinds of calls <span>in ms, as the callers saw it; calls that wait in line are left out</span></summary>
<div class="wide"><table><thead><tr><th>workload</th><th>call</th><th class="n">count</th><th class="n">half</th><th class="n">90 %</th><th class="n">99 %</th><th class="n">slowest</th></tr></thead>
<tbody>${rows}</tbody></table></div></details></section>`;
}

const footer = ({ leftBehind }: Result): Html =>
  html`<footer class="soft"><p>${leftBehind?.length === 0 ? "Nothing of the run is held any more. " : ""}Times count from the beginning of the run. Lease and session ids are stand-ins. A report in JSON holds the whole history and can be judged again with <code>holdfast/verify</code>.</p></footer>`;
