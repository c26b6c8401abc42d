// The report: tables as Markdown, which is also readable on a terminal because the columns are padded.

import { type Bar, count, type Fact, type Findings, milliseconds, type Row } from "./findings.js";
import type { Machine } from "./machine.js";

export interface Report {
  readonly machine: Machine;
  readonly findings: readonly Findings[];
  readonly failures: readonly string[];
}

export function render(report: Report): string {
  const rows = report.findings.flatMap((found) => found.rows ?? []);
  const facts = report.findings.flatMap((found) => found.facts ?? []);
  const bars = report.findings.flatMap((found) => found.bars ?? []);
  const parts = [machineLines(report.machine)];
  if (rows.length > 0) {
    parts.push(
      "## Beside a bare `node:http` echo server",
      "64 connections, one outstanding request each; the same request bytes to both, replies of the same size; rounds " +
        "in turn.\nFigures are medians over rounds; a ratio is the median of the rounds' own ratios (lowest – highest).\nLoad CPU is the load generator's share of a core against the echo server.",
      rowTable(rows),
    );
  }
  if (facts.length > 0) parts.push("## Figures", factTable(facts));
  if (bars.length > 0) parts.push("## Bars", barTable(bars));
  if (report.failures.length > 0) {
    parts.push("## Failures", report.failures.map((failure) => `- ${failure}`).join("\n"));
  }
  return `${parts.join("\n\n")}\n`;
}

function machineLines(machine: Machine): string {
  const lines = Object.entries(machine).map(
    ([name, value]) => `- ${name}: ${name === "command" ? `\`${value}\`` : value}`,
  );
  return ["# Bench", "", ...lines].join("\n");
}

function rowTable(rows: readonly Row[]): string {
  const head = [
    "operation",
    "echo/s",
    "Holdfast/s",
    "ratio",
    "p50 echo",
    "p50",
    "p99 echo",
    "p99",
    "p99 ratio",
    "load CPU",
  ];
  const body = rows.map((row) => [
    row.label,
    count(row.echo.perSecond),
    count(row.holdfast.perSecond),
    `${row.ratio.toFixed(2)} (${row.ratioLowest.toFixed(2)} – ${row.ratioHighest.toFixed(2)})`,
    milliseconds(row.echo.p50Ms),
    milliseconds(row.holdfast.p50Ms),
    milliseconds(row.echo.p99Ms),
    milliseconds(row.holdfast.p99Ms),
    row.p99Ratio.toFixed(2),
    `${Math.round(row.loadShare * 100)} %`,
  ]);
  return table(head, body);
}

function factTable(facts: readonly Fact[]): string {
  const body = facts.map(({ label, value }) => [label, value]);
  return table(["what", "measured"], body);
}

function barTable(bars: readonly Bar[]): string {
  const body = bars.map(({ what, wanted, measured, met }) => [
    what,
    wanted,
    measured,
    met ? "yes" : "**no**",
  ]);
  return table(["bar", "wanted", "measured", "met"], body);
}

function table(head: readonly string[], body: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) =>
    Math.max(title.length, ...body.map((cells) => (cells[column] ?? "").length)),
  );
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(" | ")} |`;
  const rule = `|${widths.map((width) => "-".repeat(width + 2)).join("|")}|`;
  return [line(head), rule, ...body.map(line)].join("\n");
}
