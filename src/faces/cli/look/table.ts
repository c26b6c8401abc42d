/** Columns as wide as what stands in them, made to fit a terminal. Cells come from strangers and are made harmless. */
import { printable } from "../../../core/names.js";

export interface Column {
  readonly title: string;
  /** May be cut down to this many characters where there is too little room; those named first are cut last. */
  readonly widthMin?: number;
}

const gap = "  ";

/** The heading and a line per row. `width`: of the terminal, or null where lines may be of any length. */
export function tableLines(
  columns: readonly Column[],
  rows: readonly (readonly string[])[],
  width: number | null,
): string[] {
  const cells = [columns.map(({ title }) => title), ...rows.map((row) => row.map(printable))];
  const widths = columns.map((_, i) => cells.reduce((most, row) => Math.max(most, widthOf(row[i] ?? "")), 0));
  if (width !== null) squeeze(columns, widths, width);
  return cells.map((row) => {
    const line = row.map((cell, i) => padded(cut(cell, widths[i] ?? 0), widths[i] ?? 0)).join(gap);
    return width === null ? line.trimEnd() : cut(line.trimEnd(), width);
  });
}

/** Takes the room that is missing from the last column that can give, then from the one before. */
function squeeze(columns: readonly Column[], widths: number[], width: number): void {
  let over = widths.reduce((sum, each) => sum + each + gap.length, -gap.length) - width;
  for (let i = columns.length - 1; i >= 0 && over > 0; i--) {
    const have = widths[i] ?? 0;
    const given = Math.min(over, Math.max(0, have - (columns[i]?.widthMin ?? have)));
    widths[i] = have - given;
    over -= given;
  }
}

const wide =
  /[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}\p{Script=Hangul}\p{Emoji_Presentation}\uFF01-\uFF60]/u;
const combining = /\p{M}/u;

function widthOfCharacter(character: string): number {
  if (combining.test(character)) return 0;
  return wide.test(character) ? 2 : 1;
}

/** Places on a terminal. */
export function widthOf(text: string): number {
  if (/^[\x20-\x7e]*$/.test(text)) return text.length;
  return [...text].reduce((sum, character) => sum + widthOfCharacter(character), 0);
}

const padded = (text: string, width: number): string => text + " ".repeat(Math.max(0, width - widthOf(text)));

/** What does not fit ends in an ellipsis. */
export function cut(text: string, width: number): string {
  if (widthOf(text) <= width) return text;
  let kept = "";
  let used = 0;
  for (const character of text) {
    used += widthOfCharacter(character);
    if (used > width - 1) break;
    kept += character;
  }
  return width < 1 ? "" : `${kept}…`;
}
