"""Journals into and out of directories of segment files, and the proof that a journal is whole."""
