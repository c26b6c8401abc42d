/** What has to be closed when the command has ended, or it would keep the process. Nothing is loaded for those that have none. */
const closers = new Set<() => Promise<void>>();

export const atTheEnd = (close: () => Promise<void>): void => void closers.add(close);

/** Whatever goes wrong with it, the command's own outcome counts. */
export async function closeOpened(): Promise<void> {
  await Promise.allSettled([...closers].map((close) => close()));
  closers.clear();
}
