"""codesign"""
