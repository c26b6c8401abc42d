/** What a watcher is told, as text of server-sent events. */
import type { Watched } from "../../service/watch.js";
import type { Presenter } from "./present.js";

/** One event. A snapshot's rows carry no id, so that a stream cut within it begins anew. */
export function frame(watched: Watched, present: Presenter, now: number): string {
  const observed_at = present.instants.text(now);
  switch (watched.type) {
    case "event":
      return text(watched.event.type, present.event(watched.event), watched.cursor);
    case "snapshot": {
      const { name, ...lock } = present.heldLock(watched.holding, 0) as { name: string };
      return text("snapshot", { event: "snapshot", name, lock_name: name, ...lock, observed_at }, null);
    }
    case "free":
      return text(
        "snapshot",
        {
          event: "snapshot",
          name: watched.name,
          lock_name: watched.name,
          status: "free",
          fencing_token: watched.token,
          holder: null,
          expires_at: null,
          observed_at,
        },
        null,
      );
    case "synced":
      return text("synced", { event: "synced", observed_at }, watched.cursor);
    case "reset":
      return text("reset", { event: "reset", observed_at }, null);
  }
}

const text = (event: string, data: object, id: string | null): string =>
  `${id === null ? "" : `id: ${id}\n`}event: ${event}\ndata: ${JSON.stringify(data)}\n\n`;
