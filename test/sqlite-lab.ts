// Opens data files for tests, and closes whatever a failed test left open: a store keeps its process alive.
import { after } from "node:test";
import { openSqlite as open, type SqliteOptions } from "../src/engines/sqlite/open.js";
import type { SqliteStore } from "../src/engines/sqlite/store.js";

const stores = new Set<SqliteStore>();
after(async () => {
  await Promise.all([...stores].map((store) => store.close()));
});

export async function openSqlite(
  options: Partial<SqliteOptions> & { readonly path: string },
): Promise<SqliteStore> {
  const store = await open(options);
  stores.add(store);
  return store;
}
