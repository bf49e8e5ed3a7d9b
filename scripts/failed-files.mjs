// A reporter of node's test runner: the files in which something failed, a line each, once the run is over. For scripts/test,
// which runs such a file a second time by itself.
import { relative } from 'node:path';

export default async function* failedFiles(events) {
  const files = new Set();
  for await (const { type, data } of events) {
    if (type === 'test:fail' && data.todo === undefined && typeof data.file === 'string') files.add(data.file);
  }
  for (const file of files) yield `${relative(process.cwd(), file)}\n`;
}
