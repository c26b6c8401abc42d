/**
 * The browser half of the API page, as text: fetches the OpenAPI document and shows it. It builds the page from
 * elements and text nodes only, so nothing in the document can become markup, and it sets no inline styles or
 * handlers, so a strict content security policy lets it run. It has no backslashes or template strings, so that
 * what stands here is what the browser reads.
 */
export const pageScript = `
"use strict";
(function () {
  var url = document.body.getAttribute("data-openapi");
  var main = document.querySelector("main");
  var nav = document.querySelector("nav");
  var newline = String.fromCharCode(10);

  function el(tag, className) {
    var node = document.createElement(tag);
    if (className) node.className = className;
    for (var i = 2; i < arguments.length; i++) {
      var child = arguments[i];
      if (child === null || child === undefined) continue;
      node.append(typeof child === "object" ? child : document.createTextNode(String(child)));
    }
    return node;
  }

  // Text in which only the code between backquotes is marked, as the document's descriptions use it.
  function prose(text) {
    var node = el("p", "prose");
    String(text || "").split(String.fromCharCode(96)).forEach(function (part, i) {
      if (part) node.append(i % 2 ? el("code", "", part) : document.createTextNode(part));
    });
    return node;
  }

  function resolve(doc, schema) {
    var seen = 0;
    while (schema && typeof schema.$ref === "string" && seen++ < 10) {
      schema = schema.$ref.slice(2).split("/").reduce(function (at, key) { return at && at[key]; }, doc);
    }
    return schema || {};
  }

  function typeName(doc, schema) {
    var s = resolve(doc, schema);
    if (s.const !== undefined) return JSON.stringify(s.const);
    if (s.enum) return s.enum.map(function (v) { return JSON.stringify(v); }).join(" | ");
    if (s.anyOf) return s.anyOf.map(function (each) { return typeName(doc, each); }).join(" | ");
    if (s.type === "array") return "array of " + typeName(doc, s.items);
    if (s.title) return s.title;
    return (s.type || "any") + (s.format ? " (" + s.format + ")" : "");
  }

  function bounds(s) {
    var words = [];
    if (s.minimum !== undefined || s.maximum !== undefined) {
      words.push((s.minimum === undefined ? "" : s.minimum) + " … " + (s.maximum === undefined ? "" : s.maximum));
    }
    if (s.maxLength !== undefined) words.push("at most " + s.maxLength + " characters");
    if (s.maxItems !== undefined) words.push("at most " + s.maxItems);
    if (s.pattern !== undefined) words.push("matches " + s.pattern);
    if (s.default !== undefined) words.push("default " + JSON.stringify(s.default));
    return words.length ? el("p", "bounds", words.join(", ")) : null;
  }

  function row(doc, name, required, schema, description) {
    var s = resolve(doc, schema);
    return el("tr", "",
      el("td", "", el("code", "", name), required ? el("span", "required", " required") : null),
      el("td", "", el("code", "", typeName(doc, schema))),
      el("td", "", description || s.description ? prose(description || s.description) : null, bounds(s)));
  }

  function table(rows) {
    var head = el("tr", "", el("th", "", "field"), el("th", "", "type"), el("th", "", "meaning"));
    var body = el("tbody", "");
    rows.forEach(function (each) { body.append(each); });
    return el("div", "wide", el("table", "", el("thead", "", head), body));
  }

  // One table per object, several where a reply has several shapes.
  function schemaTables(doc, schema) {
    var s = resolve(doc, schema);
    if (s.anyOf) {
      return s.anyOf.reduce(function (all, each) { return all.concat(schemaTables(doc, each)); }, []);
    }
    var names = Object.keys(s.properties || {});
    if (!names.length) return [el("p", "", el("code", "", s.type === "object" ? "{}" : typeName(doc, s)))];
    var rows = names.map(function (name) {
      return row(doc, name, (s.required || []).indexOf(name) >= 0, s.properties[name]);
    });
    return [s.title ? el("p", "shape", s.title) : null, table(rows)].filter(Boolean);
  }

  function quote(text) {
    return "'" + text.split("'").join("'" + String.fromCharCode(92) + "''") + "'";
  }

  function curl(doc, method, path, op) {
    var base = (doc.servers && doc.servers[0] && doc.servers[0].url) || "/";
    if (base.charAt(0) === "/") base = location.origin + base;
    if (base.charAt(base.length - 1) === "/") base = base.slice(0, -1);
    (op.parameters || []).forEach(function (p) {
      if (p.in === "path") path = path.split("{" + p.name + "}").join(encodeURIComponent(p.example || p.name));
    });
    var parts = ["curl"];
    var types = Object.keys((op.responses["200"] || {}).content || {});
    if (types.indexOf("text/event-stream") >= 0) parts.push("-N");
    if (types.indexOf("application/octet-stream") >= 0) parts.push("-o holdfast.backup");
    if (method !== "get") parts.push("-X " + method.toUpperCase());
    parts.push(quote(base + path));
    if ((op.security || []).length) parts.push('-H "Authorization: Bearer $HOLDFAST_TOKEN"');
    if (op.requestBody) {
      var body = resolve(doc, op.requestBody.content["application/json"].schema);
      parts.push("-H 'Content-Type: application/json'");
      parts.push("-d " + quote(JSON.stringify((body.examples || [{}])[0])));
    }
    return el("pre", "curl", el("code", "", parts.join(" ")));
  }

  function statusClass(status) {
    return "status s" + String(status).charAt(0);
  }

  function operation(doc, path, method, op) {
    var box = el("details", "operation");
    box.id = op.operationId;
    box.append(el("summary", "",
      el("span", "method " + (["get", "post", "put", "delete"].indexOf(method) >= 0 ? method : ""), method.toUpperCase()),
      el("code", "path", path), el("span", "what", op.summary), el("span", "access", op["x-access"])));
    box.append(prose(op.description), curl(doc, method, path, op));
    var parameters = (op.parameters || []).map(function (p) { return resolve(doc, p); });
    if (parameters.length) {
      box.append(el("h4", "", "Parameters"), table(parameters.map(function (p) {
        return row(doc, p.name + " (" + p.in + ")", p.required, p.schema, p.description);
      })));
    }
    if (op.requestBody) {
      box.append(el("h4", "", "Body"));
      schemaTables(doc, op.requestBody.content["application/json"].schema).forEach(function (t) { box.append(t); });
    }
    box.append(el("h4", "", "Replies"));
    Object.keys(op.responses).forEach(function (status) {
      var reply = op.responses[status];
      var line = prose(reply.description);
      line.prepend(el("span", statusClass(status), status), " ");
      box.append(line);
      var types = Object.keys(reply.content || {});
      // The error body is the same everywhere; its table would drown the rest.
      var errorOnly = types[0] && /[/](Node)?Error$/.test(reply.content[types[0]].schema.$ref || "");
      if (!types[0] || errorOnly) return;
      if (types[0] !== "application/json") box.append(el("p", "", el("code", "", types[0])));
      schemaTables(doc, reply.content[types[0]].schema).forEach(function (t) { box.append(t); });
    });
    return box;
  }

  function show(doc) {
    main.replaceChildren();
    document.querySelector("#version").textContent = doc.info.version;
    String(doc.info.description || "").split(newline + newline).forEach(function (part) {
      if (part.slice(0, 2) !== "- ") return main.append(prose(part));
      var list = el("ul", "");
      part.split(newline).forEach(function (line) { list.append(el("li", "", prose(line.slice(2)))); });
      main.append(el("details", "operation", el("summary", "", "Show"), list));
    });
    (doc.tags || []).forEach(function (tag) {
      var section = el("section", "", el("h2", "", tag.name), prose(tag.description));
      section.id = "tag-" + tag.name;
      Object.keys(doc.paths).forEach(function (path) {
        Object.keys(doc.paths[path]).forEach(function (method) {
          var op = doc.paths[path][method];
          if ((op.tags || []).indexOf(tag.name) >= 0) section.append(operation(doc, path, method, op));
        });
      });
      main.append(section);
      var link = el("a", "", tag.name);
      link.href = "#tag-" + encodeURIComponent(tag.name);
      nav.append(link);
    });
    var target = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target) {
      if (target.tagName === "DETAILS") target.open = true;
      target.scrollIntoView();
    }
  }

  fetch(url)
    .then(function (reply) {
      if (!reply.ok) throw new Error("HTTP " + reply.status);
      return reply.json();
    })
    .then(show)
    .catch(function (error) {
      main.replaceChildren(el("p", "failed", "Could not load " + url + ": " + error.message));
    });
})();
`;
