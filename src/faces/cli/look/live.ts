/** The live table of `status` and `watch`: what is held now, asked for again every second, as much as fits the screen. */
import { setTimeout as sleep } from "node:timers/promises";
import type { Client } from "../../../client/client.js";
import { isTransient } from "../../../client/errors.js";
import type { ListQuery } from "../../../client/locks.js";
import type { Lock } from "../../../client/replies.js";
import { printable } from "../../../core/names.js";
import { heldTable } from "./held.js";
import { bold, type Room, Screen } from "./screen.js";
import { cut } from "./table.js";

const refreshMs = 1000;
/** The most that the server gives at once. */
const pageMax = 1000;
/** Lines that are no row: title, heading, and below a line of advice. */
const otherLines = 4;

interface Picture {
  readonly locks: readonly Lock[];
  readonly hasMore: boolean;
  readonly at: number;
  /** Why the picture is old. */
  readonly trouble: string | null;
}

/** Returns the exit code: that of the signal which ended it. */
export async function liveTable(client: Client, query: ListQuery, where: string): Promise<number> {
  let picture = await take(client, query, { columns: 80, rows: 24 });
  const screen = new Screen(() => screen.show(frame(picture, screen.room, where, query.prefix)));
  screen.open();
  try {
    while (!screen.signal.aborted) {
      screen.draw();
      await sleep(refreshMs, undefined, { signal: screen.signal });
      picture = await take(client, { ...query, signal: screen.signal }, screen.room).catch(
        (error: unknown) => {
          if (!isTransient(error)) throw error;
          return { ...picture, trouble: error.message };
        },
      );
    }
  } catch (error) {
    if (!screen.signal.aborted) throw error;
  } finally {
    screen.close();
  }
  // What was seen last stays readable.
  for (const line of heldTable(picture.locks, screen.room.columns)) process.stdout.write(`${line}\n`);
  return screen.exitCode;
}

async function take(client: Client, query: ListQuery, room: Room): Promise<Picture> {
  const limit = Math.min(pageMax, Math.max(1, room.rows - otherLines));
  const { locks, nextCursor } = await client.locks.list({ ...query, limit });
  return { locks, hasMore: nextCursor !== null, at: performance.now(), trouble: null };
}

function frame(picture: Picture, room: Room, where: string, prefix = ""): string[] {
  const { locks, hasMore, at, trouble } = picture;
  const fitting = locks.slice(0, Math.max(1, room.rows - otherLines));
  const isCut = hasMore || fitting.length < locks.length;
  const [heading = "", ...rows] = heldTable(fitting, room.columns, performance.now() - at);
  const what = prefix === "" ? "" : ` beginning with ${prefix}`;
  const count = isCut ? `more than ${fitting.length}` : String(locks.length);
  const advice = trouble ?? (isCut ? "All of them: holdfast status | less" : "");
  return [
    cut(printable(`${count} held${what} at ${where}  (Ctrl-C ends)`), room.columns),
    bold(heading),
    ...rows,
    "",
    cut(printable(advice), room.columns),
  ];
}
