/** /proc/tty/drivers: which driver a device number belongs to. Pure. */

/** Lines of: name, device prefix, major, minor or range of minors, kind. '' when no line covers the number. */
export function driverOf(table: string, major: number, minor: number): string {
  for (const line of table.split('\n')) {
    const found = /^(\S+)\s+\S+\s+(\d+)\s+(\d+)(?:-(\d+))?(?:\s|$)/.exec(line);
    if (found === null || Number(found[2]) !== major) continue;
    const first = Number(found[3]);
    const last = found[4] === undefined ? first : Number(found[4]);
    if (minor >= first && minor <= last) return found[1] ?? '';
  }
  return '';
}
