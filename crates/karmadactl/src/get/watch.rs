//! `get --watch`: the rows as they change, of all servers in one stream of lines.

use std::collections::HashMap;

use client::{EventLines, WatchOptions};
use futures::StreamExt;
use futures::stream::select_all;
use serde_json::{Value, json};

use super::fetch::{self, accept, discovery, list_options, namespace, resources};
use super::output::Objects;
use super::rows::{Block, View};
use super::targets::Target;
use super::{Options, hide_managed_fields};
use crate::error::Error;
use crate::servers::{Server, reason};
use crate::table::Layout;
use crate::{Context, answers, output};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watch {
    /// Existing objects are not shown.
    pub only_changes: bool,
    /// Each row has a column EVENT.
    pub events: bool,
}

/// Prints the current objects and then every change, until the servers end the watches. An error of one server does not
/// end the others' watches.
pub async fn run(
    context: &Context,
    servers: &[Server],
    targets: &[Target],
    watch: Watch,
    options: &Options,
) -> Result<(), Error> {
    let several =
        "watch is only supported on individual resources and resource collections - more than 1 resource was found";
    let target = match targets {
        [target] if target.names.len() <= 1 => target,
        _ => return Err(Error::message(several)),
    };
    let mut screen = Screen {
        context,
        options,
        view: options.view(),
        block: None,
        layout: Layout::default(),
        headed: false,
        columns: HashMap::new(),
    };
    let mut failures = Vec::new();
    let mut streams = Vec::new();
    for server in servers {
        match begin(server, target, watch, &mut screen).await {
            Ok(Some(lines)) => streams.push(lines.map(move |line| (server, line)).boxed()),
            Ok(None) => return Err(Error::message(several)),
            Err(Error::Message(failure)) => failures.push(failure),
            Err(error) => return Err(error),
        }
    }
    // What the other servers send may never end: these failures are printed before it.
    let is_partial = !streams.is_empty() && !failures.is_empty();
    if is_partial {
        failures.drain(..).for_each(|failure| context.log(&format!("{failure}\n")));
    }
    let mut events = select_all(streams);
    while let Some((server, line)) = events.next().await {
        let event = line.map_err(|status| status.message).and_then(|line| event(&line));
        match event {
            Ok((type_, object)) => screen.event(server, &type_, object)?,
            Err(why) => failures.push(server.error(why)),
        }
    }
    match failures.is_empty() {
        true if is_partial => Err(Error::Silent),
        true => Ok(()),
        false => Err(Error::Several(failures)),
    }
}

/// The type and the object of an event.
fn event(line: &[u8]) -> Result<(String, Value), String> {
    let failed = |why: String| format!("a watch event cannot be understood: {why}");
    let mut event: Value = serde_json::from_slice(line).map_err(|error| failed(error.to_string()))?;
    let object = event.get_mut("object").map(Value::take).unwrap_or_default();
    answers::check(&object).map_err(failed)?;
    Ok((event["type"].as_str().unwrap_or_default().to_owned(), object))
}

/// Prints the current objects of a server and opens a watch. `None` if the type is ambiguous.
async fn begin(
    server: &Server,
    target: &Target,
    watch: Watch,
    screen: &mut Screen<'_>,
) -> Result<Option<EventLines>, Error> {
    let options = screen.options;
    let discovery = discovery(server).await?;
    let unknown = |why| if server.is_member() { Error::Message(why) } else { Error::UnknownType(why) };
    let [resource] = resources(server, &discovery, target).map_err(unknown)?[..] else { return Ok(None) };
    let resource = &resource.resource;
    let mut list = list_options(options);
    if let [name] = &target.names[..] {
        list.field_selector = Some(format!("metadata.name={name}"));
    }
    let pages = fetch::pages(&server.client, resource, options, &list).await;
    let failed = |error: client::Error| Error::message(server.error(reason(&error)));
    let pages = pages.map_err(failed)?;
    let revision = pages.last().and_then(|page| page["metadata"]["resourceVersion"].as_str().map(str::to_owned));
    screen.block.get_or_insert_with(|| Block::new(&resource.kind, None, &screen.view));
    if !watch.only_changes {
        for page in pages {
            screen.page(server, page)?;
        }
    }
    let watching = WatchOptions {
        label_selector: list.label_selector,
        field_selector: list.field_selector,
        resource_version: revision,
        ..WatchOptions::default()
    };
    let path = watching.path(resource, namespace(resource, options));
    let lines = server.client.event_lines(&path, accept(&options.output)).await;
    lines.map(Some).map_err(failed)
}

struct Screen<'a> {
    context: &'a Context,
    options: &'a Options,
    view: View,
    block: Option<Block>,
    layout: Layout,
    headed: bool,
    /// Only the first table of a watch brings its columns; by server.
    columns: HashMap<String, Value>,
}

impl Screen<'_> {
    /// The objects before the first change.
    fn page(&mut self, server: &Server, mut page: Value) -> Result<(), Error> {
        if self.options.output.is_table() {
            return self.rows(server, page, "ADDED");
        }
        answers::take_items(&mut page).into_iter().flatten().try_for_each(|item| self.object("ADDED", item))
    }

    fn event(&mut self, server: &Server, type_: &str, object: Value) -> Result<(), Error> {
        match type_ {
            "BOOKMARK" => Ok(()),
            "ERROR" => {
                self.context.log(&format!("{}\n", server.error(object["message"].as_str().unwrap_or("watch error"))));
                Ok(())
            }
            _ if self.options.output.is_table() => {
                let table = if object["kind"] == "Table" { object } else { fetch::plain_table(object) };
                self.rows(server, table, type_)
            }
            _ => self.object(type_, object),
        }
    }

    fn rows(&mut self, server: &Server, mut table: Value, event: &str) -> Result<(), Error> {
        let Some(block) = &mut self.block else { return Ok(()) };
        let brought = table["columnDefinitions"].as_array().is_some_and(|columns| !columns.is_empty());
        if brought {
            self.columns.insert(server.name.clone(), table["columnDefinitions"].clone());
        } else if let Some(columns) = self.columns.get(&server.name) {
            table["columnDefinitions"] = columns.clone();
        }
        block.add(&table, &server.name, event, &self.view);
        if block.is_empty() {
            return Ok(());
        }
        let mut lines = Vec::new();
        let headings = block.headings(&self.view);
        if !self.headed {
            self.layout = Layout::fitting(self.options.columns(self.context), &headings);
            lines.extend((!self.options.no_headers).then_some(headings));
        }
        self.headed = true;
        lines.extend(block.take_lines(&self.view));
        output::follow(self.layout.render(&lines).as_bytes())
    }

    fn object(&mut self, type_: &str, mut object: Value) -> Result<(), Error> {
        if self.options.output.hides_managed_fields() && !self.options.show_managed_fields {
            hide_managed_fields(&mut object);
        }
        if self.view.with_event {
            object = json!({"type": type_, "object": object});
        }
        let separator = if self.headed { self.options.output.separator() } else { "" };
        self.headed = true;
        output::follow(format!("{separator}{}", self.options.output.render(Objects::One(object))?).as_bytes())
    }
}
