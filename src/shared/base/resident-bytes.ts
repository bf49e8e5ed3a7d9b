let last = 0;

/** Memory of this process. Node opens a file of /proc for it: without descriptors left it is the figure of the last time. */
export function residentBytes(): number {
  try {
    last = process.memoryUsage.rss();
  } catch {
    // EMFILE: whoever asks how the process is must get an answer all the more.
  }
  return last;
}
