/** A repository's locks, opened by one process: once, whatever asks for them, and closed when the command has ended. */
import { policyDefault } from "../../../core/limits.js";
import type { RepositoryStore } from "../../../engines/open.js";
import { SoloLeases } from "../../../service/solo-leases.js";
import { systemClocks } from "../../../store/clock.js";
import { Instants } from "../../http/instants.js";
import { Presenter } from "../../http/present.js";
import type { RepositoryPlace } from "../place.js";
import { actorOf } from "./actor.js";
import { loadEngine } from "./engine.js";
import { atTheEnd } from "./opened.js";
import { Routes } from "./routes.js";

export interface Access {
  readonly store: RepositoryStore;
  readonly leases: SoloLeases;
  readonly routes: Routes;
}

const opened = new Map<string, Promise<Access>>();

export function access(place: RepositoryPlace): Promise<Access> {
  const key = JSON.stringify(place);
  let found = opened.get(key);
  if (found === undefined) {
    found = open(place);
    opened.set(key, found);
    // What could not be opened now may be there at the next attempt.
    found.catch(() => opened.delete(key));
  }
  return found;
}

async function open({ cwd, authority, address, session, skewMs }: RepositoryPlace): Promise<Access> {
  const { findRepository, openRepository } = await loadEngine();
  const repository = await findRepository(cwd, process.env);
  const actor = actorOf(repository);
  const store = await openRepository(repository, {
    authority,
    session,
    ...(address === null ? {} : { address }),
    ...(skewMs === null ? {} : { skewMs }),
  });
  atTheEnd(() => store.close());
  const leases = new SoloLeases(store, policyDefault);
  const present = new Presenter(new Instants(systemClocks, () => store.now()));
  return { store, leases, routes: new Routes(leases, actor, present) };
}
