/**
 * Which database it is. A failover makes another one of it, which may lack the last commits: the timeline of its log tells. Before
 * anything is granted there, tokens, revisions and the numbers of events are lifted above anything that can have been lost.
 */
import { floorsAfterFailover, givenBy, liftOf } from "../../core/copies.js";
import { floorKey } from "../../core/keys.js";
import type { FloorRecord } from "../../core/records.js";
import { decodeRecord, encodeRecord } from "../../store/codec.js";
import { StoreError } from "../../store/store.js";
import { settingsChanged } from "./failures.js";
import type { Pool } from "./pool.js";
import type { Told } from "./values.js";

/** Which server, database and table, as the database names them, and how often another server took over with its data. */
interface Lineage {
  readonly system: string;
  readonly timeline: number;
}

function lineageOf(text: string): Lineage {
  const [system = "", timeline] = text.split("/");
  return { system, timeline: Number(timeline) };
}

export class Lineages {
  /** The latest timeline that this server has been on. */
  #seen = 0;
  #revision = 0;
  #failovers = 0;
  /** It became another one, and that was not told yet. */
  #isNew = false;

  constructor(
    readonly pool: Pool,
    readonly schema: string,
    readonly location: string,
    readonly warn: (what: string) => void,
  ) {}

  get seen(): number {
    return this.#seen;
  }

  get failovers(): number {
    return this.#failovers;
  }

  /** The newest revision that was read or made so far: whoever asks after that must read no older one. */
  get revision(): number {
    return this.#revision;
  }

  made(revision: number): void {
    this.#revision = Math.max(this.#revision, revision);
  }

  /**
   * Whether the database may be used as it is; if not, it has been made so, or another server has, and is to be read again.
   * `atLeast`: the newest revision when it was asked. An older one is that of a copy of its files that took its place.
   */
  async accepts({ was, is, reading: { revision } }: Told, atLeast: number): Promise<boolean> {
    const [before, now] = [lineageOf(was), lineageOf(is)];
    if (now.timeline < this.#seen) throw this.oldPrimary();
    if (before.system !== now.system) throw this.#copied();
    const isAdopted = before.timeline === now.timeline && revision >= atLeast;
    this.#isNew ||= !isAdopted || (this.#seen !== 0 && now.timeline !== this.#seen);
    this.#seen = now.timeline;
    if (!isAdopted) await this.#adopt(was, revision);
    else {
      this.made(revision);
      this.#tellNew();
    }
    return isAdopted;
  }

  #tellNew(): void {
    if (!this.#isNew) return;
    this.#isNew = false;
    this.warn(
      `the database ${this.location} is not the one that the data was written in (a standby took over, or a copy was put in its place): what did not get there is lost. Fencing tokens go on above all that can have been given`,
    );
  }

  oldPrimary(): StoreError {
    return new StoreError(
      "unavailable",
      `the database ${this.location} is an old primary: another has taken over from it. Stop it, and let the URL of the store name the new one`,
    );
  }

  /** Leases may have been granted where it was copied from, ever since. */
  #copied(): StoreError {
    return new StoreError(
      "unsupported",
      `the data in ${this.location} was made in another place and copied here (a dump that was loaded, an upgrade): make sure that no server uses the other one, then say so with: UPDATE ${this.schema}.state SET system = h.system, timeline = -1 FROM ${this.schema}.here() h (docs/postgres.md says what that means for leases)`,
    );
  }

  async #adopt(was: string, revision: number): Promise<void> {
    const found = await this.pool.query(
      `SELECT record, 0, 0, 0 FROM ${this.schema}.records WHERE key >= 'floor/' AND key < 'floor0'
        UNION ALL SELECT NULL, s.token_high, c.value, extract(epoch FROM clock_timestamp()) * 1000
          FROM ${this.schema}.state s, ${this.schema}.clock c`,
    );
    const [, tokenHigh = 0, clock = 0, wallNow = 0] =
      found.rows.find(([record]) => record === null)?.map(Number) ?? [];
    const continued = { wallNow, ageMs: wallNow - clock };
    const floors = floorsAfterFailover(
      found.rows.flatMap(([text]) => (typeof text === "string" ? [decodeRecord(text) as FloorRecord] : [])),
      tokenHigh,
      continued,
    );
    const { rows } = await this.pool.query(`SELECT ${this.schema}.adopt($1, $2, $3, $4, $5, $6, $7)`, [
      was,
      revision,
      givenBy(wallNow),
      liftOf(continued.ageMs),
      Math.max(...floors.map(({ token }) => token)),
      floors.map(({ space }) => floorKey(space)),
      floors.map(encodeRecord),
    ]);
    const end = rows[0]?.[0];
    // Asked again at once it would say the same, for ever.
    if (end === "isolation") throw settingsChanged(this.location, end);
    if (end === "done") this.#failovers++;
  }
}
