/** Rows below a title, in columns. */
import { cut, tableLines } from "../look/table.js";

/** As wide as what stands in them; on a terminal no wider than that. */
export function rowsIn(rows: readonly (readonly string[])[]): string[] {
  const columns = (rows[0] ?? []).map(() => ({ title: "" }));
  const width = process.stdout.isTTY ? process.stdout.columns - indent.length : null;
  return tableLines(columns, rows, width)
    .slice(1)
    .map((line) => indent + line);
}

const indent = "  ";
const ownerWidthMax = 24;

/** Ids of 128 bits by their beginning; names as they are, as far as they fit. */
export const shortOwner = (owner: string): string =>
  /^[0-9a-f]{32}$/.test(owner) ? owner.slice(0, 8) : cut(owner, ownerWidthMax);
