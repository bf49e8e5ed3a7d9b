/** Text for the clipboard, also over plain HTTP, where browsers have no clipboard interface for any host but localhost. */

/** Within a click or a key press. false: the browser refused. */
export async function copyText(text: string): Promise<boolean> {
  // TypeScript knows it as always there.
  const clipboard = navigator.clipboard as Clipboard | undefined;
  if (clipboard === undefined) return copyBySelection(text);
  return clipboard.writeText(text).then(
    () => true,
    () => copyBySelection(text),
  );
}

/** A browser copies only where something is selected: one letter is, and its "copy" event takes the text in its place. */
function copyBySelection(text: string): boolean {
  const before = document.activeElement;
  const field = document.createElement('textarea');
  field.value = 'x';
  field.className = 'unseen';
  (document.querySelector('dialog[open]') ?? document.body).append(field);
  field.select();
  let isSet = false;
  field.addEventListener('copy', (event) => {
    event.clipboardData?.setData('text/plain', text);
    event.preventDefault();
    isSet = event.clipboardData !== null;
  });
  const isDone = document.execCommand('copy');
  field.remove();
  if (before instanceof HTMLElement) before.focus();
  return isDone && isSet;
}
