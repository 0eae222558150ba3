"use strict";
// Sort of every table whose heads name a kind of value; search of the kernel table.
(() => {
  const valueOf = (row, column, kind) => {
    const value = row.cells[column].dataset.value ?? row.cells[column].textContent;
    return kind === "number" ? Number(value) : value.toLowerCase();
  };
  const sort = (table, head, column, first) => {
    const kind = head.dataset.sort;
    const was = head.getAttribute("aria-sort");
    const direction = was ? (was === "ascending" ? "descending" : "ascending") : kind === "number" ? "descending" : "ascending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", direction);
    const sign = direction === "ascending" ? 1 : -1;
    const ordered = [...table.tBodies[0].rows].map((row) => [valueOf(row, column, kind), row]);
    ordered.sort(([a], [b]) => (a < b ? -sign : a > b ? sign : 0));
    ordered.forEach(([, row], i) => {
      row.classList.toggle("more", i >= first);
      table.tBodies[0].append(row);
    });
  };
  const makeSortable = (table, first) => {
    [...table.tHead.rows[0].cells].forEach((head, column) => {
      const button = make("button", "", head.textContent);
      head.replaceChildren(button);
      button.addEventListener("click", () => sort(table, head, column, first));
    });
  };
  for (const table of document.querySelectorAll("table.sortable")) makeSortable(table, Infinity);

  const table = document.getElementById("kernel-table");
  if (!table) return;
  const rows = [...table.tBodies[0].rows];
  const search = document.getElementById("kernel-search");
  const count = document.getElementById("kernel-count");
  const all = document.getElementById("kernel-all");
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const first = rows.filter((row) => !row.classList.contains("more")).length;
  let everything = rows.length <= first;

  const show = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let found = 0;
    rows.forEach((row, i) => {
      const matches = words.every((word) => texts[i].includes(word));
      row.classList.toggle("hidden", !matches);
      found += matches;
    });
    const searching = words.length > 0;
    table.classList.toggle("all", everything || searching);
    all.hidden = everything || searching;
    count.textContent = searching ? `${found} of ${rows.length} rows` : `${rows.length} rows`;
  };

  makeSortable(table, first);
  onSearch(search, show);
  all.addEventListener("click", () => {
    everything = true;
    show();
  });
  show();
})();
