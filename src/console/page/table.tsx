/** A list in pages as a table: on a desk with columns, on a phone each row as its name and below it its values with their column's name. */
import type { ComponentChildren, JSX } from 'preact';
import { text } from '../text.ts';
import type { Paged } from './loading.ts';
import { Button, ProblemBox } from './parts.tsx';

export interface Column<T> {
  readonly head: string;
  readonly cell: (item: T) => ComponentChildren;
  /** Its value names the row: one column of each table. */
  readonly isName?: true;
  /** Numbers stand right-aligned, digit below digit. */
  readonly isNumber?: true;
  /** Short words of a list, which are not broken. */
  readonly isWord?: true;
}

interface Selection<T> {
  /** As `idOf` gives them. Those that are no longer in the list do not count. */
  readonly ids: ReadonlySet<string>;
  readonly onChange: (ids: ReadonlySet<string>) => void;
  /** What a row is called, for the label of its checkbox. */
  readonly nameOf: (item: T) => string;
  /** What can be done with the selected rows. */
  readonly actions: (selected: readonly T[]) => ComponentChildren;
}

interface TableProps<T> {
  readonly of: Pick<Paged<T>, 'items' | 'hasMore' | 'problem' | 'more'>;
  /** Read by a screen reader; for all others it is the heading above the table. */
  readonly caption: string;
  readonly columns: readonly Column<T>[];
  readonly idOf: (item: T) => string;
  /** The text of an empty list. */
  readonly none: string;
  readonly selection?: Selection<T>;
}

export function Table<T>(props: TableProps<T>): JSX.Element {
  const { items, hasMore, more, problem } = props.of;
  return (
    <>
      <ProblemBox problem={problem} />
      {items === undefined && problem === undefined && <p class="note">{text.parts.loading}</p>}
      {items !== undefined && items.length > 0 && <Rows {...props} items={items} />}
      {hasMore && <Button text={text.parts.more} onClick={more} />}
      {items?.length === 0 && !hasMore && <p class="note">{props.none}</p>}
    </>
  );
}

function Rows<T>(props: TableProps<T> & { items: readonly T[] }): JSX.Element {
  const { items, columns, selection, idOf } = props;
  return (
    <>
      {selection !== undefined && <SelectionBar items={items} idOf={idOf} selection={selection} />}
      <table class="table">
        <caption class="unseen">{props.caption}</caption>
        <thead>
          <tr>
            {selection !== undefined && (
              <th scope="col" class="select">
                <span class="unseen">{text.table.select}</span>
              </th>
            )}
            {columns.map(({ head, isNumber }) => (
              <th key={head} scope="col" class={isNumber && 'number'}>
                {head}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {items.map((item) => (
            <tr key={idOf(item)} data-id={idOf(item)}>
              {selection !== undefined && <SelectCell item={item} id={idOf(item)} selection={selection} />}
              {columns.map((column) => (
                <Cell key={column.head} column={column} item={item} />
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

function Cell<T>({ column, item }: { column: Column<T>; item: T }): JSX.Element {
  const { head, cell, isName, isNumber, isWord } = column;
  const value = cell(item);
  if (isName) return <th scope="row">{value}</th>;
  const isEmpty = value === '' || value === false || value === null || value === undefined;
  // The space is for text that is copied from cells in one line.
  return (
    <td data-head={head} class={(isNumber && 'number') || (isWord && 'word')}>
      {value}
      {!isEmpty && ' '}
    </td>
  );
}

function SelectCell<T>({ item, id, selection }: { item: T; id: string; selection: Selection<T> }): JSX.Element {
  const { ids, onChange, nameOf } = selection;
  const toggle = (): void =>
    onChange(ids.has(id) ? new Set([...ids].filter((one) => one !== id)) : new Set([...ids, id]));
  return (
    <td class="select">
      <label class="check">
        <input type="checkbox" checked={ids.has(id)} onChange={toggle} />
        <span class="unseen">{text.table.selectRow(nameOf(item))}</span>
      </label>
    </td>
  );
}

/** Above the table, as a phone shows no row of headers. */
function SelectionBar<T>(props: Pick<TableProps<T>, 'idOf'> & { items: readonly T[]; selection: Selection<T> }) {
  const { items, idOf, selection } = props;
  const { ids, onChange, actions } = selection;
  const selected = items.filter((item) => ids.has(idOf(item)));
  const isAll = selected.length === items.length;
  return (
    <div class="selection">
      <label class="check">
        <input
          type="checkbox"
          checked={isAll}
          ref={(box) => {
            if (box !== null) box.indeterminate = selected.length > 0 && !isAll;
          }}
          onChange={() => onChange(new Set(isAll ? [] : items.map(idOf)))}
        />
        {text.table.selectAll}
      </label>
      <span role="status">{selected.length > 0 && text.table.selected(selected.length)}</span>
      {selected.length > 0 && actions(selected)}
    </div>
  );
}
