/**
 * Bearer tokens: who is calling. Stored ones are records like any other; static ones come from the configuration
 * and live only as long as the process. All are looked up by their SHA-256.
 */
import { timingSafeEqual } from "node:crypto";
import { setMaxListeners } from "node:events";
import { type Key, tokenKey } from "../core/keys.js";
import type { Policy } from "../core/limits.js";
import type { Role, TokenRecord } from "../core/records.js";
import { decideChangeToken, decideCreateToken, type TokenRefusal, tokenKeys } from "../core/token.js";
import { systemTimer, type Timer } from "../store/clock.js";
import { Attempts, type Report } from "../store/report.js";
import type { Store } from "../store/store.js";
import { hashOf, makeBearer, newAuditId } from "./bearer.js";
import { type Identity, normalScope } from "./identity.js";

/** A token that the configuration gives. */
export interface StaticToken {
  readonly name: string;
  readonly secret: string;
  readonly role: Role;
  readonly reentrant: boolean;
}

export interface TokenWish {
  readonly name: string;
  readonly space: string;
  readonly role: Role;
  readonly scopes: readonly string[];
  readonly reentrant: boolean;
  readonly expiresInMs: number | null;
}

/** Who makes or changes a token, and when by the wall clock. */
export interface TokenAct {
  readonly by: string;
  readonly wallAt: number;
}

/** The name is one that the configuration gives. */
export type TokenNameGiven = { readonly refused: "name_given" };

interface Known {
  readonly identity: Identity;
  readonly hash: Buffer;
  readonly revoke: AbortController;
}

export const defaultSpace = "default";
/** The principal of the operator's token, who acts in every space: nobody else may have this name. */
export const operatorName = "operator";
/** Tokens kept in memory: each is looked up on every request. */
const tokensMax = 10_000;
const page = 100;
const staticId = (name: string): string => `static:${name}`;
const isStatic = ({ tokenId, principal }: Identity): boolean => tokenId === staticId(principal);
/** Pause before the feed is followed again after a failure. */
const retryMs = 250;

export class Tokens {
  readonly #byHash = new Map<string, Known>();
  readonly #byId = new Map<string, Known>();

  constructor(
    readonly store: Store,
    readonly policy: Policy,
    statics: readonly StaticToken[],
    readonly after: Timer = systemTimer,
  ) {
    for (const { name, secret, role, reentrant } of statics)
      this.#learn(hashOf(secret), {
        tokenId: staticId(name),
        principal: name,
        space: defaultSpace,
        role,
        scopes: ["*"],
        reentrant,
        expiresAt: null,
      });
  }

  get size(): number {
    return this.#byHash.size;
  }

  /** Reads the stored tokens; follows changes made by others until the signal aborts. */
  async start(signal: AbortSignal, report: Report): Promise<void> {
    const from = await this.store.head();
    await this.#learnStored();
    void this.#follow(from, signal, new Attempts("following token changes", report));
  }

  /** A name that both the configuration and a stored token give: one principal, two secrets. Null: there is none. */
  twin(): string | null {
    for (const { identity } of this.#byId.values())
      if (!isStatic(identity) && this.#isGiven(identity.space, identity.principal)) return identity.principal;
    return null;
  }

  #isGiven(space: string, name: string): boolean {
    return space === defaultSpace && this.#byId.has(staticId(name));
  }

  async #follow(from: string, signal: AbortSignal, following: Attempts): Promise<void> {
    try {
      for await (const change of this.store.changes(from, signal)) {
        if ("reset" in change) await this.#learnStored();
        else if (change.event.type === "token") await this.#reload(change.event.id);
        following.worked();
      }
    } catch (error) {
      if (signal.aborted) return;
      following.failed(error);
      // An unknown place makes the feed say `reset`, and all tokens are read anew.
      this.after(retryMs, () => void this.#follow("", signal, following));
    }
  }

  /** What was known before and is stored no more was revoked; what is learnt meanwhile may be too new to be read. */
  async #learnStored(): Promise<void> {
    const gone = new Set<string>();
    for (const { identity } of this.#byId.values()) if (!isStatic(identity)) gone.add(identity.tokenId);
    for await (const record of this.#stored("")) {
      gone.delete(record.id);
      this.#learnRecord(record);
    }
    for (const id of gone) this.#forget(id);
  }

  async #reload(id: string): Promise<void> {
    const record = await this.store.transact([tokenKey(id)], (view) => ({
      reply: view.get(tokenKey(id)) ?? null,
      writes: [],
      events: [],
    }));
    if (record === null) this.#forget(id);
    else this.#learnRecord(record);
  }

  async *#stored(prefix: string): AsyncGenerator<TokenRecord> {
    for (let from = prefix; ; ) {
      const rows = await this.store.list({ index: "token", from, to: `${prefix}\x7f`, limit: page });
      for (const { sort, record } of rows) {
        from = `${sort}\u0000`;
        if (record.kind === "token") yield record;
      }
      if (rows.length < page) return;
    }
  }

  #learnRecord(record: TokenRecord): void {
    const known = this.#byId.get(record.id);
    if (known?.hash.equals(Buffer.from(record.hash, "hex"))) return;
    this.#forget(record.id);
    const { id: tokenId, name: principal, space, role, scopes, reentrant, expiresAt } = record;
    this.#learn(record.hash, { tokenId, principal, space, role, scopes, reentrant, expiresAt });
  }

  #learn(hash: string, identity: Omit<Identity, "revoked">): void {
    const revoke = new AbortController();
    setMaxListeners(0, revoke.signal); // every waiter and every stream of the token listens
    const known: Known = {
      identity: { ...identity, revoked: revoke.signal },
      hash: Buffer.from(hash, "hex"),
      revoke,
    };
    this.#byHash.set(hash, known);
    this.#byId.set(identity.tokenId, known);
  }

  #forget(id: string): void {
    const known = this.#byId.get(id);
    if (known === undefined) return;
    this.#byId.delete(id);
    this.#byHash.delete(known.hash.toString("hex"));
    known.revoke.abort();
  }

  /** Who the token stands for, or null. The look-up is by hash, so its timing tells nothing about the secret. */
  identify(token: string): Identity | null {
    const hash = hashOf(token);
    const known = this.#byHash.get(hash);
    if (known === undefined || !timingSafeEqual(known.hash, Buffer.from(hash, "hex"))) return null;
    return this.isCurrent(known.identity) ? known.identity : null;
  }

  /** Neither revoked, replaced nor expired. */
  isCurrent({ revoked, expiresAt }: Identity): boolean {
    return !revoked.aborted && (expiresAt === null || this.store.now() <= expiresAt);
  }

  /** A principal given by the configuration cannot be taken by a stored token. */
  async create(
    wish: TokenWish,
    act: TokenAct,
  ): Promise<{ record: TokenRecord; token: string } | TokenRefusal | TokenNameGiven> {
    if (this.#isGiven(wish.space, wish.name) || wish.name === operatorName) return { refused: "name_given" };
    if (this.size >= tokensMax) return { refused: "too_many", max: tokensMax };
    const { id, token, hash } = makeBearer();
    const made = { id, hash, ...wish, scopes: wish.scopes.map(normalScope) };
    const record = await this.store.transact(tokenKeys(made), (view) =>
      decideCreateToken(view, made, { ...act, auditId: newAuditId() }, this.policy),
    );
    if ("refused" in record) return record;
    this.#learnRecord(record);
    return { record, token };
  }

  async revoke(id: string, space: string, act: TokenAct): Promise<TokenRecord | TokenRefusal> {
    const reply = await this.#change(id, space, null, act);
    // One that is stored no more was revoked elsewhere, and this server may not have heard of it.
    const known = this.#byId.get(id)?.identity;
    const isGone = !("refused" in reply) || reply.refused === "token_unknown";
    if (isGone && known?.space === space && !isStatic(known)) this.#forget(id);
    return reply;
  }

  async rotate(
    id: string,
    space: string,
    act: TokenAct,
  ): Promise<{ record: TokenRecord; token: string } | TokenRefusal> {
    const { token, hash } = makeBearer(id);
    const record = await this.#change(id, space, hash, act);
    if ("refused" in record) return record;
    this.#learnRecord(record);
    return { record, token };
  }

  #change(
    id: string,
    space: string,
    hash: string | null,
    act: TokenAct,
  ): Promise<TokenRecord | TokenRefusal> {
    const keys: Key[] = [tokenKey(id)];
    return this.store.transact(keys, (view) =>
      decideChangeToken(view, { id, space }, hash, { ...act, auditId: newAuditId() }, this.policy),
    );
  }

  /** What a stored token may touch, or null if there is none of this id in the space. */
  scopesOf(id: string, space: string): readonly string[] | null {
    const known = this.#byId.get(id);
    return known === undefined || known.identity.space !== space ? null : known.identity.scopes;
  }

  async list(space: string): Promise<TokenRecord[]> {
    const records: TokenRecord[] = [];
    for await (const record of this.#stored(`${space}/`)) records.push(record);
    return records;
  }
}
