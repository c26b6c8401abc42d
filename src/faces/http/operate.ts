/** Handlers for those who run the server: health, readiness, metrics, backup, the API's own description. */
import { randomBytes } from "node:crypto";
import { createReadStream, mkdtempSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { apiPage } from "../../wire/page.js";
import { ok, problem } from "./answer.js";
import type { Handler } from "./call.js";
import { onDeparture } from "./departure.js";
import type { Metrics } from "./metrics.js";

/** Anybody may ask, and learns that the store fails, not where it is or why: the log says that. */
export const health: Handler = async (call) => {
  const { store } = call.desk.leases;
  try {
    await store.ping();
    const { engine, lateMs } = store.facts;
    const late = lateMs === 0 ? {} : { late_ms: lateMs };
    return ok({ status: "ok", version: call.desk.version, engine, ...late });
  } catch {
    return problem("unavailable", "The store cannot be used now; the server's log says why.", {
      retryAfterMs: 1000,
    });
  }
};

export const ready =
  (isReady: () => boolean): Handler =>
  async (call) => {
    if (!isReady())
      return problem("unavailable", "The server is starting or stopping.", { retryAfterMs: 1000 });
    const answer = await health(call);
    return answer?.status === 200 ? ok({ status: "ready" }) : answer;
  };

export const metrics =
  (of: Metrics): Handler =>
  async (call) => {
    call.reply.header("content-type", of.registry.contentType);
    return ok(await of.text());
  };

export const openapiDocument =
  (document: object): Handler =>
  async () =>
    ok(document);

export const docs: Handler = async (call) => {
  const nonce = randomBytes(16).toString("base64");
  call.reply.header("content-type", "text/html; charset=utf-8");
  call.reply.header(
    "content-security-policy",
    `default-src 'none'; connect-src 'self'; script-src 'nonce-${nonce}'; style-src 'nonce-${nonce}'; base-uri 'none'; form-action 'none'`,
  );
  return ok(apiPage("/openapi.json", nonce));
};

/** Makes a copy beside the data (same disk, same secrecy), streams it, removes it. */
export const backup =
  (scratchDir: string): Handler =>
  async (call) => {
    const dir = mkdtempSync(join(scratchDir, "backup-"));
    const remove = (): void => rmSync(dir, { recursive: true, force: true });
    const path = join(dir, "holdfast.db");
    try {
      await call.desk.leases.store.backup(path);
    } catch (error) {
      remove();
      throw error;
    }
    const { reply } = call;
    onDeparture(reply, remove);
    reply.header("content-type", "application/octet-stream");
    reply.header("content-length", statSync(path).size);
    reply.header("content-disposition", 'attachment; filename="holdfast-backup.db"');
    return ok(createReadStream(path));
  };
