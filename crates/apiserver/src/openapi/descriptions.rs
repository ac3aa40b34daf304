//! What the metadata that every object has means, for `kubectl explain`. The built-in types carry no prose; these are
//! the ones that every kind, custom or not, refers to.

const META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.";

/// Type (without [`META`]), field (empty: the type itself), meaning.
const ROWS: &[(&str, &str, &str)] = &[
    ("ObjectMeta", "", "Standard object's metadata: its identity, its marks, its life."),
    ("ObjectMeta", "annotations", "Marks of any content, for tools and people; nothing selects by them."),
    ("ObjectMeta", "creationTimestamp", "CreationTimestamp is a timestamp: when the server stored the object first."),
    (
        "ObjectMeta",
        "deletionGracePeriodSeconds",
        "Seconds the object may take to end once it is being deleted. Set by the server.",
    ),
    (
        "ObjectMeta",
        "deletionTimestamp",
        "When the object is to be gone. Set by the server when a deletion is asked for.",
    ),
    ("ObjectMeta", "finalizers", "Who has to do something before a deleted object goes; each removes its own entry."),
    ("ObjectMeta", "generateName", "Beginning of a name that the server completes, where no name is given."),
    ("ObjectMeta", "generation", "Number of the desired state, which grows when that changes. Set by the server."),
    ("ObjectMeta", "labels", "Marks by which objects are selected."),
    ("ObjectMeta", "managedFields", "Who set which fields. Kept by the server."),
    ("ObjectMeta", "name", "Name, unique among the objects of a kind in a namespace. It cannot be changed."),
    (
        "ObjectMeta",
        "namespace",
        "Namespace the name is unique in; empty for kinds of the whole cluster. It cannot be changed.",
    ),
    ("ObjectMeta", "ownerReferences", "Objects this one belongs to; when all of them are gone, it goes too."),
    (
        "ObjectMeta",
        "resourceVersion",
        "Version of what is stored, for watches and guarded writes. Compare it for equality only.",
    ),
    ("ObjectMeta", "selfLink", "No longer set."),
    ("ObjectMeta", "uid", "Identity of the object, which no later object of the same name has. Set by the server."),
    ("OwnerReference", "", "An object that another one belongs to, in the same namespace or of the whole cluster."),
    ("OwnerReference", "apiVersion", "Group and version of the owner."),
    (
        "OwnerReference",
        "blockOwnerDeletion",
        "Whether the owner, deleted in the foreground, waits until this object is gone.",
    ),
    ("OwnerReference", "controller", "Whether this owner is the one that manages the object."),
    ("OwnerReference", "kind", "Kind of the owner."),
    ("OwnerReference", "name", "Name of the owner."),
    ("OwnerReference", "uid", "Identity of the owner."),
    ("ManagedFieldsEntry", "", "The fields that one manager set by one kind of request."),
    ("ManagedFieldsEntry", "apiVersion", "Version in which the fields are named."),
    ("ManagedFieldsEntry", "fieldsType", "Form of the set of fields; FieldsV1 is the only one."),
    ("ManagedFieldsEntry", "fieldsV1", "The set of fields."),
    ("ManagedFieldsEntry", "manager", "Name of the manager."),
    ("ManagedFieldsEntry", "operation", "Apply or Update."),
    ("ManagedFieldsEntry", "subresource", "Subresource that was written; empty for the object itself."),
    ("ManagedFieldsEntry", "time", "When the set changed last."),
    ("FieldsV1", "", "A set of fields as a tree of their names."),
    ("Time", "", "A moment, as RFC 3339 writes it, in whole seconds."),
    ("ListMeta", "", "Metadata of a list."),
    ("ListMeta", "continue", "Token for the next part of a list that was cut off."),
    ("ListMeta", "remainingItemCount", "How many objects are left in a list that was cut off, if that is known."),
    ("ListMeta", "resourceVersion", "Version of the state that the list shows."),
    ("ListMeta", "selfLink", "No longer set."),
];

/// The meaning of a type, or of one of its fields.
pub(super) fn of(definition: &str, field: &str) -> Option<&'static str> {
    let type_ = definition.strip_prefix(META)?;
    ROWS.iter().find(|row| (row.0, row.1) == (type_, field)).map(|row| row.2)
}
