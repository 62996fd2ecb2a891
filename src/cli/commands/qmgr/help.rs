//! The help texts of `qmgr`.

/// The text of `help` without a topic.
const GENERAL: &str = "\
General syntax: command [object][@server] [name attribute[.resource] OP value]
To get help on any topic or subtopic, type help <topic>
Help is available on all commands and topics.
Available commands: \n\
active                 The active command will set the active objects.
create                 The create command will create the specified object on the PBS server(s).
delete                 The delete command will delete the specified object from the PBS server(s).
set                    The set command sets the value for an attribute on the specified object.
unset                  The unset command will unset an attribute on the specified object.
list                   The list command will list out all the attributes for the specified object.
print                  The print command's output can be fed back into qmgr as input.
import                 This takes hook script contents.
export                 Dumps output of hook script into.
quit                   The quit command will exit from qmgr.
history                The history command will show qmgr command history.
Other topics: \n\
attributes             type help or ? <attributes>.
operators              type help or ? <operators>.
names                  type help or ? <names>.
values                 type help or ? <values>.

";

/// The topics, selected by any prefix.
const TOPICS: &[(&str, &str)] = &[
    (
        "active",
        "active [queue|node|server] [name[,name...]]\nCommands without a name are about the active ones.\n",
    ),
    (
        "create",
        "create object name [attribute OP value[,...]]\nObjects: queue, resource, hook. Nodes come with their noded.\n",
    ),
    (
        "delete",
        "delete object name[,name...]\nA queue with jobs, and a resource that is in use, stay.\n",
    ),
    (
        "set",
        "set object [name[,name...]] attribute[.resource] OP value[,...]\nAll of an object is set, or nothing.\n",
    ),
    (
        "unset",
        "unset object [name[,name...]] attribute[.resource][,...]\n",
    ),
    (
        "list",
        "list object [name[,name...]] [attribute[,...]]\n@default stands for all of a kind.\n",
    ),
    (
        "print",
        "print object [name[,name...]] [attribute[,...]]\nprint server prints resources, queues and the server.\n",
    ),
    (
        "import",
        "import hook name application/x-executable default file\nThe hook runs a copy of this program.\n",
    ),
    (
        "export",
        "export hook name application/x-executable default [file]\nPrints the hook's program, or writes it there.\n",
    ),
    ("quit", "Ends qmgr; so does exit.\n"),
    ("history", "Shows the commands given so far.\n"),
    (
        "attributes",
        "See qmgr(8); list shows those that are set.\n",
    ),
    (
        "operators",
        "=   sets a value\n+=  adds to a list, a limit's entries, a number\n-=  takes away from one\n",
    ),
    (
        "names",
        "Names of a kind of objects, apart by commas; @default stands for all.\n",
    ),
    (
        "values",
        "A value with blanks or commas stands in quotes.\nLimits: [u:user=N],[g:group=N],[p:project=N],[o:PBS_ALL=N]; PBS_GENERIC for each.\n",
    ),
];

/// The text for a topic; the general text for an unknown one.
pub fn about(topic: &str) -> &'static str {
    let topic = topic.trim().to_ascii_lowercase();
    let known = TOPICS
        .iter()
        .find(|(name, _)| !topic.is_empty() && name.starts_with(&*topic));
    known.map_or(GENERAL, |(_, text)| text)
}
