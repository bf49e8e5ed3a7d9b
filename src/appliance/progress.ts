/** Progress of something long: a line for each tenth, readable where the output is a file too. Pure. */

export function tenths(out: { write(text: string): unknown }): (what: string, done: number, of: number) => void {
  let last = '';
  return (what, done, of) => {
    const line = `${what}: ${of === 0 ? 100 : Math.floor((10 * done) / of) * 10} %\n`;
    if (line !== last) out.write(line);
    last = line;
  };
}
