import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { conformance } from "../../../test/conformance.js";
import { openSqlite } from "./open.js";

// One process has the file and opens it once: both handles are the same store.
conformance("sqlite", async () => {
  const dir = mkdtempSync(join(tmpdir(), "holdfast-test-"));
  const store = await openSqlite({ path: join(dir, "data.db") });
  return {
    one: store,
    two: store,
    close: async () => {
      await store.close();
      rmSync(dir, { recursive: true, force: true });
    },
  };
});
