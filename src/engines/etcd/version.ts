/** Versions of etcd: what is too old to work with, and what is known to lose or keep leases wrongly. */

/** The first release of a minor line without the known bugs of etcd's own leases. */
const soundFrom: Readonly<Record<string, number>> = { "3.5": 33, "3.6": 14 };
const oldest = [3, 4] as const;

export type VersionVerdict =
  | { readonly verdict: "fine" }
  | { readonly verdict: "warn" | "refuse"; readonly why: string };

/** What is to be said of a server of this version, as `3.5.21`. */
export function judgeVersion(version: string): VersionVerdict {
  const match = /^v?(\d+)\.(\d+)\.(\d+)(-.+)?$/.exec(version);
  if (match === null) return { verdict: "warn", why: `etcd tells ${JSON.stringify(version)} as its version` };
  const [major, minor, patch] = [Number(match[1]), Number(match[2]), Number(match[3])];
  if (major < oldest[0] || (major === oldest[0] && minor < oldest[1]))
    return { verdict: "refuse", why: `etcd ${version} is too old: ${oldest.join(".")} or newer is needed` };
  const sound = soundFrom[`${major}.${minor}`];
  // A release candidate comes before its release.
  const isBelow = sound !== undefined && (patch < sound || (patch === sound && match[4] !== undefined));
  if (!isBelow) return { verdict: "fine" };
  return {
    verdict: "warn",
    why: `etcd ${version} has known bugs in its own leases: ${major}.${minor}.${sound} or newer has not. Holdfast does not use them; others on the same cluster may`,
  };
}
