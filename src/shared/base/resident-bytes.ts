let last = 0;

/** Memory of this process. Node opens a file of /proc for it: without descriptors left it is the figure of the last time. */
export function residentBytes(): number {
  try {
    last = process.memoryUsage.rss();
  } catch {
    // EMFILE: then above all a caller that asks how the process is must get an answer.
  }
  return last;
}
