"use strict";
// Texts from data reach the page as text nodes and attributes only, never as HTML.
(() => {
  const $ = (selector, within = document) => within.querySelector(selector);
  const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
  const data = id => JSON.parse($(`#${id}`).textContent);

  function el(name, attributes = {}, ...children) {
    const node = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) {
      if (key === "on") Object.entries(value).forEach(([event, act]) => node.addEventListener(event, act));
      else if (key === "style") Object.entries(value).forEach(([property, set]) => node.style.setProperty(property, set));
      else if (value !== null && value !== undefined && value !== false) node.setAttribute(key, value === true ? "" : value);
    }
    node.append(...children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== ""));
    return node;
  }
  const minus = text => text.replace("-", "−");
  const fixed = (number, decimals) => minus(number.toFixed(decimals));
  const signed = (number, decimals) => {
    const text = number.toFixed(decimals);
    return Number(text) === 0 ? (0).toFixed(decimals) : (number > 0 ? "+" : "") + minus(text);
  };
  const short = number => minus(Number.isInteger(number) ? String(number) : String(Number(number.toPrecision(4))));
  const option = (value, label = value) => el("option", {value}, label);
  const region = (label, table) => el("div", {class: "scroll", tabindex: 0, role: "region", "aria-label": label}, table);

  // ---- theme, sections, print -------------------------------------------------------------------------------------
  function themes() {
    const button = $("#theme"), names = ["system", "light", "dark"];
    let chosen = "system";
    try { chosen = localStorage.getItem("waltz-theme") || "system"; } catch { /* no storage for this file */ }
    const show = () => {
      if (chosen === "system") delete document.documentElement.dataset.theme;
      else document.documentElement.dataset.theme = chosen;
      button.textContent = `Theme: ${chosen}`;
    };
    button.hidden = false;
    button.addEventListener("click", () => {
      chosen = names[(names.indexOf(chosen) + 1) % names.length];
      try { localStorage.setItem("waltz-theme", chosen); } catch { /* the choice lasts as long as the page */ }
      show();
    });
    show();
  }

  function sections() {
    const links = new Map($$(".top nav a").map(link => [link.hash.slice(1), link]));
    const ids = [...links.keys()], header = $(".top");
    const topOf = id => $(`#${id}`).getBoundingClientRect().top;
    const mark = () => {
      let current = ids.findLast(id => topOf(id) < header.offsetHeight + 40) ?? ids[0];
      // The last sections are too short to reach the top of the screen: the one that was asked for counts, else the last.
      if (scrollY > 0 && innerHeight + scrollY >= document.documentElement.scrollHeight - 2) {
        const asked = location.hash.slice(1).split("?")[0];
        current = links.has(asked) && topOf(asked) >= 0 ? asked : ids.at(-1);
      }
      links.forEach((link, id) => id === current ? link.setAttribute("aria-current", "location") : link.removeAttribute("aria-current"));
    };
    for (const event of ["scroll", "resize", "hashchange"]) addEventListener(event, mark, {passive: true});
    mark();
    new ResizeObserver(() => document.documentElement.style.setProperty("--bar", `${header.offsetHeight}px`)).observe(header);
  }

  // The hash names a section or a table; that of the examples also names data set, model, profile and item.
  const readHash = () => {
    const [id, query] = location.hash.slice(1).split("?");
    return {target: id ? document.getElementById(decodeURIComponent(id)) : null, query: new URLSearchParams(query || "")};
  };
  const writeHash = (id, query = "") => history.replaceState(null, "", `#${id}${query && "?"}${query}`);

  function links(showExample) {
    const open = () => {
      const {target, query} = readHash();
      if (!target) return;
      if (target.matches("details")) target.open = true;
      if (target.id === "samples" && showExample && query.has("item")) showExample(Object.fromEntries(query));
      target.scrollIntoView();
    };
    $$("details.table > summary").forEach(summary => summary.addEventListener("click", () => {
      if (!summary.parentNode.open) writeHash(summary.parentNode.id);
    }));
    addEventListener("hashchange", open);
    open();
  }

  function printing() {
    // What the reader opened is printed; pictures below the screen are loaded for it.
    addEventListener("beforeprint", () => waiting.forEach(unpack => unpack()));
  }

  // ---- sorting by a column ----------------------------------------------------------------------------------------
  const NEXT = {none: "descending", descending: "ascending", ascending: "none"};

  function compare(a, b, direction) {
    if (a === b) return 0;
    if (a === null || a === "") return 1;
    if (b === null || b === "") return -1;
    const order = typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", {numeric: true});
    return direction === "ascending" ? order : -order;
  }

  function sortButton(head, act) {
    const button = el("button", {type: "button"});
    button.append(...head.childNodes);
    head.append(button);
    head.setAttribute("aria-sort", "none");
    button.addEventListener("click", () => {
      const direction = NEXT[head.getAttribute("aria-sort")];
      $$("[aria-sort]", head.parentNode).forEach(other => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", direction);
      act(direction);
    });
  }

  function sortable(table) {
    const bodies = [...table.tBodies].map(body => ({body, original: $$("tr:not(.group)", body)}));
    const value = cell => {
      if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
      const text = (cell.firstChild?.textContent ?? "").trim(), number = text.replace(/,/g, "").replace(/−/g, "-").match(/^[+-]?\d+(\.\d+)?(e[+-]?\d+)?/);
      return number && cell.classList.contains("number") ? Number(number[0]) : text === "–" ? null : text;
    };
    $$("thead th", table).forEach((head, column) => sortButton(head, direction => {
      bodies.forEach(({body, original}) => body.append(...(direction === "none" ? original
        : [...original].sort((a, b) => compare(value(a.cells[column]), value(b.cells[column]), direction)))));
    }));
  }

  // ---- the tables that print has ----------------------------------------------------------------------------------
  const tables = (() => {
    const {fields, classes, marks, compared, small, tables: grids} = data("grids");
    const BEST = 1, GUESSED = 2, FEW = 4, saved = fields.slice(0, fields.indexOf("row"));
    const at = Object.fromEntries(fields.map((field, position) => [field, position]));
    const state = {profile: "", view: compared ? "both" : "value", verdict: "", terms: []};
    const holders = new Map($$("details[data-table]").map(details => [details.dataset.table, details]));
    const models = new Map();

    // Rows of one first name stand together, as in the table's other forms.
    function layOut(grid, profile) {
      const key = `${grid.id} ${profile}`;
      if (models.has(key)) return models.get(key);
      const {corner, columns: headings, rows: named} = grid.layouts[profile];
      const joined = names => names.filter(Boolean).join(" · "), grouped = corner.length > 1;
      const columns = headings.map((levels, position) => ({position, levels, name: joined(levels) || "value"}));
      const rows = named.map(names => ({group: grouped ? names[0] : "", label: joined(grouped ? names.slice(1) : names), search: joined(names).toLowerCase(), cells: new Map()}));
      for (const packed of grid.cells) {
        const name = field => grid.names[packed[at[field]]], row = rows[packed[at.row]];
        if (name("profile") !== profile || !row) continue;
        const cell = {decimals: grid.decimals[name("metric")], verdict: name("verdict"), reason: name("reason"), text: name("text"), print: name("paper_text"),
          best: packed[at.mark] & BEST, guessed: packed[at.mark] & GUESSED, few: packed[at.mark] & FEW, title: ["metric", "model", "dataset", "setting"].map(name).filter(Boolean).join(" · ")};
        for (const field of ["value", "n", "ci_low", "ci_high", "paper_value", "difference", "sd", "paper_sd", "chance", "tolerance"]) cell[field] = packed[at[field]];
        row.search += ` ${name("model")} ${name("metric")}`.toLowerCase();
        row.cells.set(packed[at.column], cell);
      }
      const hasWords = cell => Boolean(cell?.text) && cell.text !== "nan";
      columns.forEach(column => { column.words = rows.some(row => hasWords(row.cells.get(column.position))); });
      const groups = new Map();
      rows.forEach(row => groups.set(row.group, [...groups.get(row.group) || [], row]));
      const model = {corner: joined(grouped ? corner.slice(1) : corner), columns, groups: [...groups].map(([name, members]) => ({name, rows: members}))};
      models.set(key, model);
      return model;
    }

    // A word that some row has picks rows; one that only columns have picks columns.
    function selectRows(model) {
      let columns = model.columns;
      const rows = model.groups.flatMap(group => group.rows), inRows = [];
      for (const term of state.terms) {
        if (rows.some(row => row.search.includes(term))) inRows.push(term);
        else columns = columns.filter(column => column.name.toLowerCase().includes(term));
      }
      const keep = row => inRows.every(term => row.search.includes(term)) && columns.some(column => row.cells.has(column.position)) &&
        (!state.verdict || columns.some(column => row.cells.get(column.position)?.verdict === state.verdict));
      const groups = model.groups.map(group => ({...group, rows: group.rows.filter(keep)})).filter(group => group.rows.length);
      return {...model, columns, groups: columns.length ? groups : []};
    }

    // A table of one profile is shown whichever is chosen.
    const chooseProfile = grid => grid.profiles.includes(state.profile) ? state.profile : grid.profiles[0];

    const getShownNumber = cell => state.view === "paper_value" ? cell.paper_value : state.view === "difference" ? cell.difference : cell.value;

    function content(cell) {
      const mark = marks[cell.verdict], sign = mark ? el("span", {class: "mark"}, mark) : "";
      const dash = () => el("span", {class: "missing"}, "–");
      const spread = sd => sd === null ? "" : el("span", {class: "spread"}, ` ± ${fixed(sd, cell.decimals)}`);
      const paperText = cell.paper_value === null ? cell.print : fixed(cell.paper_value, cell.decimals);
      const print = paperText ? el("span", {class: "print"}, paperText, spread(cell.paper_sd)) : "";
      if (state.view === "paper_value") return [print || dash()];
      if (state.view === "difference") return cell.difference === null ? [dash()] : [signed(cell.difference, cell.decimals), sign];
      const number = cell.value === null ? "" : fixed(cell.value, cell.decimals);
      const ours = number ? [cell.guessed ? el("span", {class: "guessed"}, "▽") : "", cell.best ? el("strong", {}, number) : number, cell.few ? small : "", spread(cell.sd)] : cell.text || dash();
      if (state.view === "value" || !print) return [ours, sign];
      const alone = el("span", {class: "print"}, "(", print, ")");
      return cell.value === null && !cell.text ? [alone] : mark ? [ours, sign, print] : [ours, " ", alone];
    }

    function detailOf(cell) {
      const parts = [];
      if (cell.value !== null) {
        const interval = cell.ci_low === null || cell.ci_high === null ? "" : ` [${fixed(cell.ci_low, cell.decimals)}, ${fixed(cell.ci_high, cell.decimals)}]`;
        parts.push(`ours ${fixed(cell.value, cell.decimals)}${interval}${cell.n === null ? "" : `, n = ${cell.n.toLocaleString("en")}`}`);
        if (cell.sd !== null) parts.push(`deviation ${fixed(cell.sd, cell.decimals)}`);
        if (cell.best) parts.push("best of the models, as a test shows");
        if (cell.few) parts.push("too few items or images to mean anything");
        if (cell.guessed) parts.push(`at or below chance, ${short(cell.chance)}`);
      }
      if (cell.text) parts.push(`ours ${cell.text}`);
      if (cell.print) parts.push(`paper ${cell.print}`);
      if (cell.paper_value !== null) parts.push(`paper ${minus(String(cell.paper_value))}`);
      if (cell.difference !== null) parts.push(`difference ${signed(cell.difference, cell.decimals)}`);
      const tolerance = cell.tolerance === null ? "" : `, as any difference up to ${fixed(cell.tolerance, cell.decimals)}`;
      if (compared) parts.push(cell.verdict === "compatible" ? `compatible${tolerance}` : cell.verdict);
      if (cell.reason) parts.push(cell.reason);
      return [el("b", {}, cell.title), `: ${parts.join("; ")}`];
    }

    function render(grid) {
      const body = $(".body", holders.get(grid.id)), profile = chooseProfile(grid);
      const {corner, columns, groups} = selectRows(layOut(grid, profile));
      const detail = el("p", {class: "detail", "aria-live": "polite"}, "Point at a cell, or move between cells with the arrow keys, to see its interval, number of items and reason.");
      const levels = columns[0]?.levels || [], last = levels.length - 1;
      const above = levels.slice(0, -1).map((_, level) => el("tr", {class: "above"}, el("td"), spans(columns, level).map(([name, width]) => el("th", {scope: "colgroup", colspan: width}, name))));
      const head = el("tr", {}, el("th", {scope: "col"}, corner), columns.map(column => el("th", {scope: "col", class: column.words ? "words" : "number"}, column.levels[last] || (last ? "" : "value"))));
      const cellAt = new Map();
      const rowOf = row => el("tr", {}, el("th", {scope: "row"}, row.label || "all"), columns.map(column => {
        const cell = row.cells.get(column.position);
        const kind = [cell && (classes[cell.verdict] || "other"), cell?.few && "few", column.words && "words"].filter(Boolean).join(" ");
        const node = el("td", {class: kind || null, tabindex: -1}, cell ? content(cell) : "");
        if (cell) cellAt.set(node, cell);
        return node;
      }));
      const parts = groups.map(group => {
        const rows = group.rows.map(row => ({row, node: rowOf(row)}));
        const top = group.name ? el("tr", {class: "group"}, el("th", {scope: "rowgroup", colspan: columns.length + 1}, group.name)) : null;
        return {top, rows, node: el("tbody", {}, top, rows.map(row => row.node))};
      });
      const table = el("table", {class: "grid"}, el("caption", {class: "hidden"}, `${grid.id}, profile ${profile}`), el("thead", {}, above, head), parts.map(part => part.node));
      const order = (part, direction, key) => {
        const rows = direction === "none" ? part.rows : [...part.rows].sort((a, b) => compare(key(a.row), key(b.row), direction));
        part.node.append(...rows.map(row => row.node));
      };
      [...head.cells].forEach((cell, position) => sortButton(cell, direction => parts.forEach(part => order(part, direction, row => {
        if (!position) return row.label;
        const shownCell = row.cells.get(columns[position - 1].position);
        return shownCell ? getShownNumber(shownCell) : null;
      }))));
      const tell = node => { if (cellAt.has(node)) detail.replaceChildren(...detailOf(cellAt.get(node))); };
      table.addEventListener("pointerover", event => tell(event.target.closest("td")));
      table.addEventListener("focusin", event => tell(event.target));
      table.addEventListener("keydown", event => moveCellFocus(event, table));
      const first = $("td", table);
      if (first) first.tabIndex = 0;
      const save = el("button", {type: "button", on: {click: () => download(grid)}}, "Save as CSV");
      const alone = profile === state.profile ? "" : el("p", {class: "note"}, `This table has cells of profile ${profile} only.`);
      body.replaceChildren(alone, el("div", {class: "scroll"}, table), el("div", {class: "under"}, detail, save));
    }

    // Headings of one level, each with how many columns it is above.
    function spans(columns, level) {
      const headings = [];
      let before = null;
      for (const {levels} of columns) {
        const upTo = JSON.stringify(levels.slice(0, level + 1));
        if (upTo === before) headings.at(-1)[1] += 1;
        else headings.push([levels[level], 1]);
        before = upTo;
      }
      return headings;
    }

    function moveCellFocus(event, table) {
      const steps = {ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0]}[event.key];
      const cell = event.target.closest("td");
      if (!steps || !cell) return;
      event.preventDefault();
      const rows = $$("tbody tr:not(.group)", table), row = rows.indexOf(cell.parentNode) + steps[0];
      const next = rows[row]?.cells[cell.cellIndex + steps[1]];
      if (!next || next.matches("th")) return;
      cell.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    }

    function download(grid) {
      const quoted = text => /[",\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
      const named = new Set(["profile", "metric", "model", "dataset", "setting", "verdict", "reason", "text", "paper_text"]);
      const lines = grid.cells.map(packed => saved.map((field, position) => quoted(named.has(field) ? grid.names[packed[position]] : String(packed[position] ?? ""))).join(","));
      const url = URL.createObjectURL(new Blob([[saved.join(","), ...lines].join("\n") + "\n"], {type: "text/csv"}));
      el("a", {href: url, download: `${grid.id}.csv`}).click();
      setTimeout(() => URL.revokeObjectURL(url), 1000);
    }

    const renderOpen = () => grids.forEach(grid => { if (holders.get(grid.id).open && !holders.get(grid.id).hidden) render(grid); });

    function filterPlain() {
      let nShown = 0;
      for (const section of $$("[data-filtered]")) {
        const other = section.dataset.profile && state.profile && section.dataset.profile !== state.profile;
        let rows = 0;
        for (const body of $$("tbody", section)) {
          const members = $$("tr:not(.group)", body);
          members.forEach(row => {
            const text = `${body.dataset.group || ""} ${row.textContent}`.toLowerCase();
            row.hidden = !state.terms.every(term => text.includes(term));
          });
          body.hidden = members.length > 0 && members.every(row => row.hidden);
          rows += members.filter(row => !row.hidden).length;
        }
        section.hidden = Boolean(other) || Boolean(state.terms.length && !rows);
        if (!section.hidden) nShown += rows;
      }
      return nShown;
    }

    function update() {
      let rows = 0;
      const matching = [];
      for (const grid of grids) {
        const holder = holders.get(grid.id);
        const layout = layOut(grid, chooseProfile(grid)), groups = state.terms.length || state.verdict ? selectRows(layout).groups : layout.groups;
        const nRows = groups.reduce((sum, group) => sum + group.rows.length, 0);
        holder.hidden = !nRows;
        rows += nRows;
        if (nRows) matching.push(holder);
      }
      rows += filterPlain();
      const opened = state.terms.length ? $$("details.table:not([hidden])") : [];
      if (opened.length <= 3) opened.forEach(holder => { holder.open = true; });
      renderOpen();
      $("#filtered").textContent = state.terms.length || state.verdict ? `${rows.toLocaleString("en")} rows${grids.length ? ` and ${matching.length} of ${grids.length} tables` : ""} match.` : "";
    }

    function start() {
      const controls = $("#table-controls");
      if (!controls) return;
      controls.hidden = false;
      controls.addEventListener("submit", event => event.preventDefault());
      const profiles = new Set([...grids.flatMap(grid => grid.profiles), ...$$("[data-profile]").map(section => section.dataset.profile)]);
      state.profile = profiles.has("published") ? "published" : [...profiles][0] || "";
      $("#profile").append(...[...profiles].map(profile => option(profile)));
      $("#profile").value = state.profile;
      $("#profile").closest("label").hidden = profiles.size < 2;
      const verdicts = new Set(grids.flatMap(grid => grid.cells.map(cell => grid.names[cell[at.verdict]])));
      $("#verdict")?.append(...Object.keys(classes).filter(kind => verdicts.delete(kind)).concat([...verdicts]).map(kind => option(kind)));
      $("#profile").addEventListener("change", event => { state.profile = event.target.value; update(); });
      $("#views")?.addEventListener("change", event => { state.view = event.target.value; renderOpen(); });
      $("#verdict")?.addEventListener("change", event => { state.verdict = event.target.value; update(); });
      let typed = 0;
      $("#filter").addEventListener("input", event => {
        clearTimeout(typed);
        typed = setTimeout(() => { state.terms = event.target.value.toLowerCase().split(/\s+/).filter(Boolean); update(); }, 120);
      });
      holders.forEach((holder, id) => holder.addEventListener("toggle", () => { if (holder.open) render(grids.find(grid => grid.id === id)); }));
      const all = $("#open-all");
      all.addEventListener("click", () => {
        const open = all.textContent === "Open all";
        $$("#tables details.table").forEach(holder => { holder.open = open; });
        all.textContent = open ? "Close all" : "Open all";
      });
      update();
    }
    return {start, renderOpen};
  })();

  // ---- figures ----------------------------------------------------------------------------------------------------
  // What a page does not show at once is unpacked when it comes near, or when the page is printed.
  const waiting = [];
  function near(node, act) {
    let done = false;
    const once = () => { if (!done) { done = true; observer.disconnect(); act(); } };
    const observer = new IntersectionObserver(entries => { if (entries.some(entry => entry.isIntersecting)) once(); }, {rootMargin: "1500px"});
    observer.observe(node);
    waiting.push(once);
  }

  const box = $("#lightbox");
  function enlarge(source, name) {
    box.setAttribute("aria-label", name);
    $("div", box).replaceChildren(el("img", {src: source, alt: name}));
    box.showModal();
  }

  function figures() {
    $$(".zoom").forEach(button => button.addEventListener("click", () => enlarge($("img", button).src, $("img", button).alt)));
    box.addEventListener("click", event => { if (event.target === box) box.close(); });
    let pictures = null;
    $$("[data-figure]").forEach(image => near(image, () => {
      pictures ??= data("pictures");
      image.src = pictures[image.dataset.figure];
    }));
  }

  // ---- the sample browser -----------------------------------------------------------------------------------------
  const FOR = [[255, 255, 255], [146, 197, 222], [67, 147, 195]], AGAINST = [[255, 255, 255], [244, 165, 130], [214, 96, 77]];
  function color(strength) {
    if (strength === null || !Number.isFinite(strength)) return "rgb(225 225 225)";
    const scale = strength < 0 ? AGAINST : FOR, position = Math.min(1, Math.abs(strength)) * 2, low = Math.min(1, Math.floor(position));
    return `rgb(${scale[low].map((from, part) => Math.round(from + (scale[low + 1][part] - from) * (position - low))).join(" ")})`;
  }

  function browser() {
    const browserData = data("browser");
    const state = {dataset: browserData.datasets[0].name, model: "", profile: "", outcome: "", scale: "one", item: null};
    let linked = false;
    const selects = {dataset: $("#s-dataset"), model: $("#s-model"), profile: $("#s-profile")};
    const list = $("#s-list"), article = $("#sample");
    const nameFields = (values, fields) => Object.fromEntries(fields.map((field, position) => [field, values[position] ?? undefined]).filter(([, value]) => value !== undefined));
    for (const result of browserData.items.flatMap(item => item.results)) result.model = browserData.models[result.model];
    // Scores and contributions of a result, with names for their values.
    const scoresOf = result => (result.scores || []).map(row => nameFields(row, browserData.fields.scores));
    const contributionsOf = result => (result.contributions || []).map(({is, ...part}) => ({...browserData.players[part.players], ...nameFields(is, browserData.fields.contributions), ...part}));
    const of = dataset => browserData.items.filter(item => item.dataset === dataset);
    const resultOf = item => item.results.find(result => result.model === state.model && result.profile === state.profile);

    function fill(select, values, wanted) {
      select.replaceChildren(...values.map(value => option(value)));
      select.value = values.includes(wanted) ? wanted : values[0];
      return select.value;
    }

    function updateChoices() {
      const results = of(state.dataset).flatMap(item => item.results);
      const explained = new Set(results.filter(result => result.contributions).map(result => result.model));
      const models = browserData.models.filter(model => results.some(result => result.model === model));
      state.model = fill(selects.model, models, state.model || models.find(model => explained.has(model)));
      const profiles = [...new Set(results.filter(result => result.model === state.model).map(result => result.profile))];
      state.profile = fill(selects.profile, profiles, state.profile);
      selects.profile.closest("label").hidden = profiles.length < 2;
      updateList();
    }

    const SIGNS = {right: "✓ right", wrong: "✗ wrong", tie: "= tie"};
    function updateList() {
      const all = of(state.dataset).map(item => ({item, result: resultOf(item)})).filter(({result}) => result);
      const shown = all.filter(({result}) => !state.outcome || result.outcome === state.outcome)
        .sort((a, b) => Boolean(b.result.contributions) - Boolean(a.result.contributions));
      const set = browserData.datasets.find(dataset => dataset.name === state.dataset);
      $("#s-count").textContent = `${shown.length} of ${all.length} examples; the data set has ${set.items.toLocaleString("en")} items.`;
      list.replaceChildren(...shown.map(({item, result}) => el("li", {}, el("button", {type: "button", "data-id": item.id, on: {click: () => show(item)}},
        item.image === null ? el("span", {class: "blank"}) : el("img", {src: browserData.images[item.image], alt: "", loading: "lazy"}),
        el("span", {}, el("span", {class: "clip"}, Object.values(item.texts)[0] || item.id), result.outcome ? el("span", {class: result.outcome}, SIGNS[result.outcome]) : "")))));
      const still = shown.find(({item}) => item === state.item) || shown[0];
      if (still) show(still.item);
      else { state.item = null; article.replaceChildren(el("p", {}, `None of the ${all.length} examples is ${state.outcome === "tie" ? "a tie" : state.outcome}.`)); }
    }

    function show(item) {
      state.item = item;
      if (linked) writeHash("samples", new URLSearchParams({dataset: state.dataset, model: state.model, profile: state.profile, item: item.id}).toString());
      $$("button", list).forEach(button => button.setAttribute("aria-current", String(button.dataset.id === item.id)));
      const result = resultOf(item), buttons = $$("button", list), position = buttons.findIndex(button => button.dataset.id === item.id);
      const step = by => { const next = buttons[(position + by + buttons.length) % buttons.length]; next.click(); next.scrollIntoView({block: "nearest", inline: "nearest"}); };
      const contributions = contributionsOf(result), mapped = contributions.filter(part => part.columns);
      article.replaceChildren(
        el("header", {}, el("h2", {}, item.id, " ", result.outcome ? el("span", {class: result.outcome}, SIGNS[result.outcome]) : ""),
          el("span", {class: "steps"}, el("button", {type: "button", id: "s-previous", on: {click: () => step(-1)}}, "← Previous"), el("button", {type: "button", id: "s-next", on: {click: () => step(1)}}, "Next →"))),
        el("p", {class: "meta"}, item.facts.join(" · ")),
        el("dl", {class: "texts"}, Object.entries(item.texts).map(([role, text]) => [el("dt", {}, role), el("dd", {}, markSpan(text, item.spans[role === "mismatched" ? "foil" : role]))])),
        mapped.length ? el("div", {class: "panels"}, mapped.map(part => panel(item, part, mapped))) : picture(item),
        ...contributions.filter(part => part.error || part.skipped).map(part => el("p", {class: "note"}, `${part.role}: ${part.error || "contributions are in the Parquet file; there are too many for this page"}`)),
        scores(result), tests(result), ccShap(result));
    }

    function markSpan(text, span) {
      if (!span) return [text];
      const letters = [...text], cut = (from, to) => letters.slice(from, to).join("");
      return [cut(0, span[0]), el("mark", {}, cut(...span)), cut(span[1])];
    }

    const picture = item => item.image === null ? (item.fault ? el("p", {class: "note"}, `No image: ${item.fault}`) : "")
      : el("div", {class: "shown"}, el("div", {class: "alone-image"}, imageOf(item)), largeButton(item));
    const imageOf = item => el("img", {src: browserData.images[item.image], alt: `Image of ${item.id}`});
    const largeButton = item => el("button", {type: "button", class: "enlarge", "aria-label": "Show the image large", title: "Show the image large",
      on: {click: () => enlarge(browserData.images[item.image], `Image of ${item.id}`)}}, "⤢");

    // Values of one output, text players first, as real numbers.
    const values = (part, column) => part.columns[Math.min(column, part.columns.length - 1)].phi.map(steps => steps === null ? null : steps * part.columns[Math.min(column, part.columns.length - 1)].step);
    const magnitude = numbers => numbers.reduce((sum, number) => sum + Math.abs(number ?? 0), 0);
    const peak = numbers => numbers.reduce((largest, number) => Math.max(largest, Math.abs(number ?? 0)), 0);

    // The example on the first screen: the caption as its model sees it.
    function typical() {
      const item = browserData.items[browserData.typical.item], result = item.results[browserData.typical.result];
      const part = contributionsOf(result)[browserData.typical.part], [map, tokens, readout] = drawContributions(item, part, 0, result.model, peak(values(part, 0)));
      const foil = Object.entries(item.texts).find(([role]) => role === "foil" || role === "mismatched");
      const link = `#samples?${new URLSearchParams({dataset: item.dataset, model: result.model, profile: result.profile, item: item.id})}`;
      $("#typical").replaceChildren(el("h2", {}, `One example: ${result.model}, ${item.dataset} `, result.outcome ? el("span", {class: result.outcome}, SIGNS[result.outcome]) : ""),
        browserData.typical.remark ? el("p", {class: "note"}, browserData.typical.remark) : "",
        el("p", {class: "texts-line"}, "Caption: ", markSpan(item.texts.caption, item.spans.caption), foil ? [el("br"), "Foil: ", markSpan(foil[1], item.spans.foil)] : ""),
        map, el("div", {}, share(part), tokens, el("p", {class: "note"}, "Blue patches and words raise the score of the caption, red and hatched ones lower it. ", el("a", {href: link}, "All numbers of this example")), readout));
    }

    function panel(item, part, all) {
      const body = el("div"), number = all.indexOf(part);
      const draw = column => body.replaceChildren(...drawContributions(item, part, column, state.model, peak(all.flatMap(other => values(other, other === part ? column : 0)))));
      const names = part.columns.map((column, position) => option(position, position ? `${position}: ${column.name}` : column.name));
      const outputs = names.length > 1 ? el("label", {class: "note"}, "Output token ", el("select", {on: {change: event => draw(Number(event.target.value))}}, names)) : "";
      const subtitle = [part.setting, part.score === undefined ? "" : `${part.explained || "score"} ${short(part.score)}`].filter(Boolean).join(", ");
      const node = el("section", {class: "panel", "aria-labelledby": `panel-${number}`}, el("h3", {id: `panel-${number}`}, part.role, el("span", {}, subtitle)), share(part), outputs,
        part.outputs_skipped ? el("p", {class: "note"}, `The values of its ${part.outputs_skipped} output tokens are in the Parquet file.`) : "", body);
      draw(0);
      return node;
    }

    function share(part) {
      if (part.t_shap === undefined) return part.reason ? el("p", {class: "note"}, `T-SHAP not defined: ${part.reason}`) : "";
      const percent = 100 * part.t_shap, error = part.t_shap_se === undefined ? "" : ` ± ${(100 * part.t_shap_se).toFixed(1)}`;
      return el("div", {}, el("span", {class: "note"}, `T-SHAP ${percent.toFixed(1)}${error} % text, ${(100 - percent).toFixed(1)} % image`),
        el("div", {class: "share", role: "img", "aria-label": `${percent.toFixed(0)} percent of the contributions come from the text`}, el("i", {style: {"--share": `${percent}%`}})));
    }

    // Values below a hundredth are shown in thousandths or less; one that still rounds to 0 has its own power of ten.
    const SUPERS = "⁰¹²³⁴⁵⁶⁷⁸⁹", power = exponent => `10⁻${[...String(-exponent)].map(digit => SUPERS[digit]).join("")}`;
    function chooseScale(largest) {
      const exponent = largest > 0 && largest < 0.01 ? 3 * Math.floor(Math.log10(largest) / 3) : 0, top = largest / 10 ** exponent;
      const decimals = top > 0 ? Math.max(0, 1 - Math.floor(Math.log10(top))) : 1;
      const show = value => {
        if (value === null) return "NaN";
        const text = signed(value / 10 ** exponent, decimals);
        if (value === 0 || Number(text.replace("−", "-")) !== 0) return text;
        const power10 = Math.floor(Math.log10(Math.abs(value))), digit = Math.round(Math.abs(value) / 10 ** power10);
        return `${value < 0 ? "−" : "+"}${digit}·${power(power10)}`;
      };
      return {unit: exponent ? power(exponent) : "", show};
    }

    function drawContributions(item, part, column, model, largest) {
      const phi = values(part, column), nTokens = part.tokens.length, phiByModality = [phi.slice(0, nTokens), phi.slice(nTokens)];
      const each = state.scale === "each", sums = phiByModality.map(magnitude), peaks = each ? phiByModality.map(peak) : [largest, largest];
      const {unit, show: plain} = chooseScale(largest);
      const formatValue = (value, modality) => each ? (value === null ? "NaN" : signed(100 * value / (sums[modality] || 1), 0)) : plain(value);
      const strength = (value, modality) => value === null ? null : value / (peaks[modality] || 1);
      const against = text => text.startsWith("−") ? "against" : null;
      const readout = el("p", {class: "readout", "aria-live": "polite"}, [each ? "Values in percent of their modality." : unit ? `Values in units of ${unit}.` : "", part.estimator ? `Estimated by ${part.estimator}${part.evaluated ? `, ${part.evaluated.toLocaleString("en")} ${part.estimator.includes("factorised") ? "encoder passes" : "coalitions"}` : ""}.` : ""].join(" ").trim());
      const names = ["of the text", "of the image"];
      const describe = (name, value, modality) => `${name}: ${plain(value)}${unit && !plain(value).includes("10") ? ` × ${unit}` : ""}, ${(100 * Math.abs(value ?? 0) / (sums[modality] || 1)).toFixed(1)} % ${names[modality]}, ${(100 * Math.abs(value ?? 0) / (sums[0] + sums[1] || 1)).toFixed(1)} % of all`;
      const tell = text => ({pointerenter: () => { readout.textContent = text; }, focus: () => { readout.textContent = text; }});
      const labels = labelTokens(part);
      const tokens = el("div", {class: "tokens", role: "group", "aria-label": "Tokens"}, labels.map(([label, joined], position) => {
        const value = phiByModality[0][position], text = formatValue(value, 0);
        return el("span", {class: ["token", joined ? "joined" : "", against(text) || ""].join(" ").trim(), tabindex: position ? -1 : 0, role: "img", "aria-label": describe(label, value, 0),
          style: {"background-color": color(strength(value, 0))}, on: tell(describe(`“${label}”`, value, 0))}, el("b", {}, label), el("small", {}, text));
      }));
      tokens.addEventListener("keydown", event => moveFocus(event, tokens, labels.length));
      const parts = [];
      if (part.grid && item.image !== null) {
        const grid = part.grid, track = {"grid-template-columns": `repeat(${grid}, 1fr)`, "grid-template-rows": `repeat(${grid}, 1fr)`};
        const patches = el("div", {class: "patches", role: "group", "aria-label": "Patches of the image", style: track}, phiByModality[1].map((value, position) => {
          const location = `row ${Math.floor(position / grid) + 1}, column ${position % grid + 1}`;
          return el("span", {class: ["patch", against(formatValue(value, 1)) || ""].join(" ").trim(), tabindex: position ? -1 : 0, role: "img", "aria-label": describe(location, value, 1),
            style: {"background-color": color(strength(value, 1))}, on: tell(describe(`Patch in ${location}`, value, 1))});
        }));
        patches.addEventListener("keydown", event => moveFocus(event, patches, grid));
        const numbers = grid <= 5 ? el("div", {class: "labels", "aria-hidden": "true", style: track}, phiByModality[1].map(value => el("span", {}, formatValue(value, 1)))) : "";
        const image = imageOf(item), map = el("div", {class: "map"}, image, patches, numbers);
        if (browserData.middle_square.includes(model)) image.decode().then(() => alignToSquare(image, [patches, numbers])).catch(() => {});
        parts.push(el("div", {class: "shown"}, map, largeButton(item)));
      }
      const table = el("details", {on: {toggle: event => { if (event.target.open) event.target.append(listValues(labels, phiByModality, plain, part)); }}}, el("summary", {}, `All values as a table${unit && `, in units of ${unit}`}`));
      return [el("div", {}, parts), tokens, readout, table];
    }

    // Patches lie on the square in the middle of the image, which is all that the model sees.
    function alignToSquare(image, layers) {
      const {naturalWidth: width, naturalHeight: height} = image;
      const squareSize = Math.min(width, height);
      const xMargin = 50 * (1 - squareSize / width);
      const yMargin = 50 * (1 - squareSize / height);
      layers.filter(Boolean).forEach(layer => { layer.style.inset = `${yMargin}% ${xMargin}%`; });
    }

    function moveFocus(event, group, across) {
      const step = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across}[event.key];
      const members = [...group.children], next = members[members.indexOf(event.target) + (step || 0)];
      if (!step || !next) return;
      event.preventDefault();
      event.target.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
    }

    // What to show for each token, and whether it goes on with the word before; spans count characters, not UTF-16 units.
    function labelTokens(part) {
      const letters = [...part.text];
      let shown = 0, before = "";
      return part.tokens.map((token, position) => {
        const start = part.spans[2 * position], end = part.spans[2 * position + 1];
        if (end <= start) return [token, false];
        const piece = letters.slice(Math.max(start, shown), end).join("");
        const joined = Boolean(before) && start <= shown && !/\s/.test(before) && !/^\s/.test(piece);
        shown = end;
        before = letters[end - 1] || "";
        return [piece.trim() || "·", joined];
      });
    }

    function listValues(labels, phiByModality, plain, part) {
      const row = (kind, name, value) => el("tr", {}, el("th", {scope: "row"}, name), el("td", {}, kind), el("td", {class: "number"}, plain(value)));
      const table = el("table", {class: "plain"}, el("thead", {}, el("tr", {}, el("th", {scope: "col"}, "player"), el("th", {scope: "col"}, "kind"), el("th", {scope: "col", class: "number"}, "contribution"))),
        el("tbody", {}, phiByModality[0].map((value, position) => row("token", labels[position][0], value)),
          phiByModality[1].map((value, position) => row(part.grid ? "patch" : "region", part.grid ? `row ${Math.floor(position / part.grid) + 1}, column ${position % part.grid + 1}` : `region ${position + 1}`, value))));
      $$("table", article).filter(old => old.dataset.values).forEach(old => old.remove());
      table.dataset.values = "true";
      return table;
    }

    const LONG = new Set(["answer", "edited_answer", "explanation", "edited_explanation", "edited_input", "reason", "error", "inserted", "exchanges"]);
    const formatField = value => value === undefined ? "" : typeof value === "number" ? short(value) : typeof value === "boolean" ? (value ? "yes" : "no") : typeof value === "string" ? value : JSON.stringify(value);
    function fieldTable(heading, rows, left = []) {
      const fields = [...new Set(rows.flatMap(row => Object.keys(row)))].filter(field => !left.includes(field));
      const number = field => rows.some(row => typeof row[field] === "number");
      return el("section", {class: "block-row"}, el("h3", {}, heading), region(heading, el("table", {class: "plain"},
        el("thead", {}, el("tr", {}, fields.map(field => el("th", {scope: "col", class: number(field) ? "number" : null}, field.replace(/_/g, " "))))),
        el("tbody", {}, rows.map(row => el("tr", {}, fields.map(field => el("td", {class: number(field) ? "number" : LONG.has(field) ? "texts-cell" : null}, formatField(row[field])))))))));
    }
    const quoteFields = (rows, field) => [...new Set(rows.map(row => row[field]).filter(Boolean))].map(text => [el("h3", {}, field), el("blockquote", {class: "quote"}, text)]);

    function scores(result) {
      const rows = scoresOf(result);
      return rows.length ? el("div", {}, fieldTable("Scores", rows, ["reasoning"]), quoteFields(rows, "reasoning")) : "";
    }
    const tests = result => result.tests ? fieldTable("Tests of self-consistency", result.tests) : "";
    const ccShap = result => result.cc_shap ? el("div", {class: "block-row"}, fieldTable("CC-SHAP", result.cc_shap, ["explanation", "answer"]), quoteFields(result.cc_shap, "answer"), quoteFields(result.cc_shap, "explanation")) : "";

    fill(selects.dataset, browserData.datasets.map(dataset => dataset.name), state.dataset);
    $("#sample-controls").addEventListener("submit", event => event.preventDefault());
    selects.dataset.addEventListener("change", event => { state.dataset = event.target.value; updateChoices(); });
    selects.model.addEventListener("change", event => { state.model = event.target.value; updateChoices(); });
    selects.profile.addEventListener("change", event => { state.profile = event.target.value; updateList(); });
    $("#s-outcome").addEventListener("change", event => { state.outcome = event.target.value; updateList(); });
    $("#s-scale").addEventListener("change", event => { state.scale = event.target.value; if (state.item) show(state.item); });
    list.addEventListener("keydown", event => {
      const step = {ArrowDown: 1, ArrowRight: 1, ArrowUp: -1, ArrowLeft: -1}[event.key], buttons = $$("button", list);
      const next = buttons[buttons.indexOf(event.target) + (step || 0)];
      if (!step || !next) return;
      event.preventDefault();
      next.focus();
      next.click();
    });
    updateChoices();
    if (browserData.typical) typical();
    linked = true;
    return wanted => {
      const item = browserData.items.find(item => item.dataset === wanted.dataset && item.id === wanted.item);
      if (!item) return;
      Object.assign(state, {dataset: wanted.dataset, model: wanted.model, profile: wanted.profile || "", outcome: "", item});
      $("#s-outcome input").checked = true;
      selects.dataset.value = state.dataset;
      updateChoices();
    };
  }

  themes();
  $$("table.plain").forEach(sortable);
  tables.start();
  figures();
  printing();
  sections();
  links($("#samples") ? browser() : null);
  document.documentElement.dataset.ready = "true";
})();
